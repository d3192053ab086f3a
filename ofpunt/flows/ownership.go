// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// ownership decides which of several processes owns the flows of a bridge. The processes do not talk to each
// other: each sees in the switch whose lease flow is installed. The rule is the rule of a term number in
// consensus protocols. The highest generation owns the flows. A process that sees a higher generation than
// its own yields. A process that takes over does so with a generation above all that it has seen. So a
// replaced process puts nothing back, however late it learns that it is replaced.
type ownership struct {
	// generation is of this process's flows, 0 before it has one.
	generation uint64
	// yielding is set while another process owns the flows.
	yielding bool
	// takeOverAt is when a process that yields takes over unless a lease flow is installed again, zero
	// while one does.
	takeOverAt time.Time
}

// verdict is what a process may do with the flows.
type verdict uint8

const (
	// own: the flows are this process's. It puts back flows that another program changes.
	own verdict = iota
	// yield: another process owns them, or may be about to put them back.
	yield
	// takeOver: no process owns the flows any more. The process has a new generation from then on.
	takeOver
)

// observedLease is the lease flow that the switch has, of whatever process.
type observedLease struct {
	installed  bool
	generation uint64
}

// step decides by the installed lease flow, and by the highest generation of any flow that was ever seen: a
// later process may have come and gone unnoticed. A lease flow may be gone because its process is slow, or
// because all flows were deleted: its process has delay to put it back.
func (t *ownership) step(now time.Time, lease observedLease, highest uint64, delay time.Duration, random *rand.Rand) verdict {
	switch t.yielding = highest > t.generation; {
	case !t.yielding:
		return own
	case lease.installed && lease.generation > t.generation:
		t.takeOverAt = time.Time{}
		return yield
	case lease.installed && lease.generation == releasedGeneration:
	case t.takeOverAt.IsZero():
		t.takeOverAt = now.Add(delay)
		return yield
	case now.Before(t.takeOverAt):
		return yield
	}
	t.yielding, t.takeOverAt = false, time.Time{}
	t.generation = nextGeneration(now, highest, random)
	return takeOver
}

// takeOverDelay is how long a process waits for another process that has lost its lease flow: longer than the
// other process takes to check its flows. It is random, so that one of several waiting processes is first.
func takeOverDelay(beat time.Duration, random *rand.Rand) time.Duration {
	return beat + time.Duration(random.Int64N(max(int64(beat/2), 1)))
}

// owns reports whether this process owns the flows. It begins a generation if this process needs a new one,
// and reports lost and expired flows.
func (m *machine) owns() bool {
	t, s := &m.memory.ownership, &m.observed
	if t.generation == 0 {
		m.beginGeneration()
	}
	if s.expired && !m.reportedExpired {
		m.reportedExpired = true
		m.do(LeaseExpired{})
	}
	if s.collision && s.highest == t.generation {
		m.beginGeneration()
	}
	s.collision = false
	before := t.yielding
	switch t.step(m.now, s.lease(), s.highest, takeOverDelay(m.want.Heartbeat, m.random), m.random) {
	case yield:
		if m.status != yielding {
			m.status, m.guests, m.flows = yielding, 0, 0
			m.do(Yielded{Still: before})
		}
		s.expired, m.reportedExpired, s.lost, m.lostFlows = false, false, 0, 0
		m.meters.abandon()
		if !s.lease().installed {
			m.do(retrySoon{})
		}
		return false
	case takeOver:
		m.traced[t.generation] = true
		m.status = unreported
		m.do(TookOver{})
	}
	if s.lost > 0 {
		m.do(Lost{s.lost})
		m.lostFlows += s.lost
		s.lost = 0
		// Who removes these flows may remove meters and OVN's own flows too, as ovn-controller
		// and `ovs-ofctl del-flows` do.
		m.meters.invalidate()
		m.stage.forget()
	}
	return true
}

// beginGeneration begins a generation, of which no flow is installed.
func (m *machine) beginGeneration() {
	t := &m.memory.ownership
	t.generation = nextGeneration(m.now, m.observed.highest, m.random)
	m.traced[t.generation] = true
}
