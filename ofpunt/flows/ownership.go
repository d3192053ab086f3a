// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// ownership decides which process owns a bridge's flows. Processes see each other only by the switch's lease flow. As
// with terms in consensus protocols, the highest generation owns the flows. A process that sees a higher generation
// yields, and takes over only with a generation above all seen. So a replaced process restores nothing, however late
// it notices.
type ownership struct {
	// generation is 0 before this process has one.
	generation uint64
	yielding   bool
	// takeOverAt is when a yielding process takes over, zero while a lease flow is installed.
	takeOverAt time.Time
}

type verdict uint8

const (
	// own: this process restores what another program changes.
	own verdict = iota
	// yield: another process owns the flows, or may be about to restore them.
	yield
	// takeOver: this process owns the flows with a new generation.
	takeOver
)

type observedLease struct {
	installed  bool
	generation uint64
}

// step decides by the installed lease flow and the highest generation seen: a later process may have come and gone
// unseen. The other process, slow or without its flows, has delay to restore its lease flow.
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

// takeOverDelay exceeds the time that another process needs to check its flows. It is random, so that one of several
// waiting processes is first.
func takeOverDelay(beat time.Duration, random *rand.Rand) time.Duration {
	return beat + time.Duration(random.Int64N(max(int64(beat/2), 1)))
}

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
			m.abandonOpenings()
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
		// Whoever removes these flows may remove meters and OVN's flows too, as ovn-controller and `ovs-ofctl
		// del-flows` do.
		m.meters.invalidate()
		m.stage.forget()
	}
	return true
}

func (m *machine) beginGeneration() {
	t := &m.memory.ownership
	t.generation = nextGeneration(m.now, m.observed.highest, m.random)
	m.traced[t.generation] = true
}
