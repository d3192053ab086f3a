// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"strings"
)

// What tenants can choose is in lines that an operator pastes as root, so each value passes one
// of these functions.

// shellWord returns a value as one word of a POSIX shell (XCU, section 2.2). What can't be printed
// is replaced.
func shellWord(value string) string {
	value = safe(value)
	if value != "" && strings.Trim(value, unquoted) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// unquoted are the characters that mean nothing to a shell.
const unquoted = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,"

// ovnString returns a value as a string of OVN's expressions and of ovs-vsctl(8), in quotation marks.
func ovnString(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(safe(value)) + `"`
}
