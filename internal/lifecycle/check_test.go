// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"io"
	"testing"
)

// However much the process of a trial writes, little of it is kept.
func TestHeadIsBounded(t *testing.T) {
	var h head
	n, err := io.Copy(&h, io.LimitReader(neverEnds{}, 1<<20))
	if err != nil || n != 1<<20 || len(h.String()) != 4<<10 {
		t.Errorf("%d bytes taken, %d kept: %v; want all taken and 4096 kept", n, len(h.String()), err)
	}
}

// What keeps a start from taking the Corefile is told once, whatever else is wrong.
func TestWithSetups(t *testing.T) {
	start := errors.New("plugin/cache: no")
	for _, tt := range []struct {
		setups []error
		want   string
	}{
		{nil, "plugin/cache: no"},
		{[]error{errors.New("Corefile:2 - plugin/cache: no"), errors.New("Corefile:3 - other")}, "Corefile:2 - plugin/cache: no\nCorefile:3 - other"},
		{[]error{errors.New("Corefile:3 - other")}, "plugin/cache: no\nCorefile:3 - other"},
	} {
		if got := withSetups(start, tt.setups).Error(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.setups, got, tt.want)
		}
	}
}

// neverEnds has zeros to read for good.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
