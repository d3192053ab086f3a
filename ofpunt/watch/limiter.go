// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"sync/atomic"
	"time"
)

// minWindow spreads events over a second.
const minWindow = 50 * time.Millisecond

// limiter bounds a rate by time, not by the reader's speed.
type limiter struct {
	begun   time.Time
	window  time.Duration
	allowed uint64 // per window, below 1<<32
	// newest window in the upper half, its passed events in the lower half
	state atomic.Uint64
}

// At least one event a second passes.
func newLimiter(rate int, begun time.Time) *limiter {
	allowed := max(1, time.Duration(rate)*minWindow/time.Second)
	window := (time.Second*allowed + time.Duration(rate) - 1) / time.Duration(rate)
	return &limiter{begun: begun, window: window, allowed: uint64(allowed)}
}

// A late event counts in the newest window.
func (l *limiter) allows(now time.Time) bool {
	window := uint64(max(0, now.Sub(l.begun))/l.window) + 1 // numbers begin at 1
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
