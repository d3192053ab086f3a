// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormat(t *testing.T) {
	texts := map[string]string{"TestB/a_row": "one\n\n\tthree\n", "TestA": "", "TestB": "TestA"}
	if diff := cmp.Diff(texts, parse(format(texts))); diff != "" {
		t.Error(diff)
	}
	if got := parse(""); len(got) > 0 {
		t.Errorf("an empty file has %q", got)
	}
}
