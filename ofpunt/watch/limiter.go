// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"sync/atomic"
	"time"
)

// minWindow is the shortest time that a limiter counts by: short enough to spread what passes over the
// second.
const minWindow = 50 * time.Millisecond

// limiter bounds a rate. Only the time decides what passes, and not the speed of a reader.
type limiter struct {
	begun   time.Time
	window  time.Duration
	allowed uint64 // in a window, below 1<<32
	// state has the number of the newest window in its upper half, and how many it has let through
	// in the lower one.
	state atomic.Uint64
}

// newLimiter returns a limiter of so many a second, at least one, from a time on.
func newLimiter(rate int, begun time.Time) *limiter {
	allowed := max(1, time.Duration(rate)*minWindow/time.Second)
	window := (time.Second*allowed + time.Duration(rate) - 1) / time.Duration(rate)
	return &limiter{begun: begun, window: window, allowed: uint64(allowed)}
}

// allows reports whether one more event may pass at a time. A late event counts in the newest window.
func (l *limiter) allows(now time.Time) bool {
	window := uint64(max(0, now.Sub(l.begun))/l.window) + 1 // none has the number 0
	for {
		state := l.state.Load()
		next := state + 1
		switch {
		case state>>32 < window:
			next = window<<32 + 1
		case state&(1<<32-1) >= l.allowed:
			return false
		}
		if l.state.CompareAndSwap(state, next) {
			return true
		}
	}
}
