// SPDX-License-Identifier: Apache-2.0

// Package shell writes values into lines that an operator pastes into a shell, as root: tenants can
// choose names, so each value passes one of its functions.
package shell

import (
	"strings"

	"github.com/puntdns/puntdns/internal/escape"
)

// Word returns a value as one word of a POSIX shell (XCU, section 2.2). What can't be printed is
// escaped, and the word is then not the value: such a shell has no escapes.
func Word(value string) string {
	value = escape.Line(value)
	if value != "" && strings.Trim(value, unquoted) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// unquoted are the characters that mean nothing to a shell.
const unquoted = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,"

// OVNString returns a value as a string of OVN's expressions (ovn-sb(5), "Logical_Flow TABLE") and of
// ovs-vsctl(8), which are strings of JSON.
func OVNString(value string) string { return string(escape.AppendJSON(nil, value)) }
