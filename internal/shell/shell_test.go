// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"os/exec"
	"strings"
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
	if got := Word("a\x1b[31m\n"); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("%q has control characters", got)
	}
}
