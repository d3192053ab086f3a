// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
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

// neverEnds has zeros to read for good.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
