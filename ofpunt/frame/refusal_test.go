// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

func TestRefusals(t *testing.T) {
	label := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	seen := map[frame.Refusal]bool{}
	for _, r := range frame.Refusals() {
		if !label.MatchString(string(r)) || seen[r] {
			t.Errorf("%q is no label, or stands twice", string(r))
		}
		seen[r] = true
		var got frame.Refusal
		if err := fmt.Errorf("punt: %w", r); !errors.As(err, &got) || got != r {
			t.Errorf("%v does not come out of a wrapped error", r)
		}
	}
	list := frame.Refusals()
	list[0] = "changed"
	if frame.Refusals()[0] == "changed" {
		t.Error("a caller can change the list")
	}
}
