// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// lease decides whether the lease flow may go on. Each beat sends a probe through the switch;
// the lease flow is renewed when the probe has come back through the reader of the connection
// and a worker. A process that is dead, stopped or stuck renews nothing, and the switch
// stops punting when the lease is over.
type lease struct {
	// token is the token of the outstanding probe, 0 for none; sent is when it left.
	token uint64
	sent  time.Time
	// overdue is set from the beat that found a probe missing until one comes back.
	overdue bool
}

// heartbeat returns the token of a new probe, and reports whether it is news that the one
// before is missing.
func (l *lease) heartbeat(now time.Time, random *rand.Rand) (token uint64, missed bool) {
	late := l.token != 0
	missed = late && !l.overdue
	l.overdue = late
	l.token, l.sent = random.Uint64()|1, now
	return l.token, missed
}

// returned reports whether the probe that came back is the outstanding one, which counts
// once, and whether it ends a time in which they were overdue.
func (l *lease) returned(token uint64) (back, recovered bool) {
	if token == 0 || token != l.token {
		return false, false
	}
	recovered = l.overdue
	l.token, l.overdue = 0, false
	return true, recovered
}

// cancel drops a probe that has no flow to come back by.
func (l *lease) cancel() { l.token, l.overdue = 0, false }
