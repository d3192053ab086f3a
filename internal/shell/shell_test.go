// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"os/exec"
	"testing"
)

// A shell takes each value as it stands, whatever a tenant has put into it.
func TestWord(t *testing.T) {
	for _, value := range []string{
		"", "tap0", "a b", "it's", "$(touch x)", "`id`", "a;b", "x';touch$IFS/tmp/y;'", `"`, `\`, "*", "~root", "-n", "a\\'b", "{a,b}", "é", "#",
	} {
		out, err := exec.Command("sh", "-c", "printf %s "+Word(value)).Output()
		if err != nil || string(out) != value {
			t.Errorf("%q: the shell has %q, %v", value, out, err)
		}
	}
	if got := Word("a\x1b[31m\n\u202e"); got != `'a\x1b[31m\n\u202e'` {
		t.Errorf("%q has no escapes", got)
	}
}

// A string of OVN's is one of JSON, so it has the whole value.
func TestOVNString(t *testing.T) {
	for value, want := range map[string]string{
		"":                 `""`,
		`a "b" \n`:         `"a \"b\" \\n"`,
		"a\n\x1b[2J\u202e": `"a\u000a\u001b[2J\u202e"`,
	} {
		if got := OVNString(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
