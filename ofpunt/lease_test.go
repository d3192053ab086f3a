// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"
	"time"
)

// Only the probe that is on its way counts, and once.
func TestProbeToken(t *testing.T) {
	l := newLease(15 * time.Second)
	came := func() bool {
		select {
		case <-l.back:
			return true
		default:
			return false
		}
	}
	l.token.Store(0)
	if l.returned(0); came() {
		t.Error("a probe that nobody has sent")
	}
	const token = 0x1234567890abcdef
	l.token.Store(token)
	for _, wrong := range []uint64{0, 1, token + 1, token >> 1} {
		if l.returned(wrong); came() {
			t.Errorf("token %x counts", wrong)
		}
	}
	if l.returned(token); !came() {
		t.Error("the right token does not count")
	}
	if l.returned(token); came() {
		t.Error("it counts again")
	}
}
