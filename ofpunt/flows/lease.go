// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// lease decides whether the lease flow is renewed. Each heartbeat sends a probe through the switch. Its return
// through the connection's reader and a worker renews the lease flow. A dead, stopped or stuck process renews
// nothing, and the switch stops punting.
type lease struct {
	// token is 0 without an outstanding probe.
	token uint64
	sent  time.Time
	// overdue lasts from the heartbeat that misses a probe to a probe's return.
	overdue bool
}

// heartbeat returns a new probe's token; missed is set for the first missing probe in a row.
func (l *lease) heartbeat(now time.Time, random *rand.Rand) (token uint64, missed bool) {
	late := l.token != 0
	missed = late && !l.overdue
	l.overdue = late
	l.token, l.sent = random.Uint64()|1, now
	return l.token, missed
}

// returned reports whether the outstanding probe is back, and whether probes were overdue.
func (l *lease) returned(token uint64) (back, recovered bool) {
	if token == 0 || token != l.token {
		return false, false
	}
	recovered = l.overdue
	l.token, l.overdue = 0, false
	return true, recovered
}

func (l *lease) cancel() { l.token, l.overdue = 0, false }
