// SPDX-License-Identifier: Apache-2.0

// Package shell writes values into lines that an operator pastes into a shell, as root: tenants can
// choose names, so each value passes one of its functions.
package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Word returns a value as one word of a POSIX shell (XCU, section 2.2). What can't be printed
// is replaced.
func Word(value string) string {
	value = Printable(value)
	if value != "" && strings.Trim(value, unquoted) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// unquoted are the characters that mean nothing to a shell.
const unquoted = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,"

// OVNString returns a value as a string of OVN's expressions and of ovs-vsctl(8), in quotation marks.
func OVNString(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(Printable(value)) + `"`
}

// Printable replaces what a terminal would take for a command.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
