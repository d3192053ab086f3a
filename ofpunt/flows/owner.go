// SPDX-License-Identifier: Apache-2.0

package flows

// owns reports whether the flows are to be this process's.
func (m *machine) owns() bool {
	t, s := &m.memory.tenure, &m.standing
	if t.generation == 0 {
		m.begin()
	}
	if s.lapsed && !m.toldLapsed {
		m.toldLapsed = true
		m.do(Lapsed{})
	}
	if s.twin && s.highest == t.generation {
		m.begin()
	}
	s.twin = false
	before := t.yielding
	switch t.step(m.now, s.punt(), s.highest, patienceOf(m.want.Beat, m.random), m.random) {
	case yield:
		if m.status != yielding {
			m.status, m.guests, m.flows = yielding, 0, 0
			m.do(Yielded{Still: before})
		}
		s.lapsed, m.toldLapsed, s.lost = false, false, 0
		m.meters.leave()
		if !s.punt().stands {
			m.do(retrySoon{})
		}
		return false
	case take:
		m.traced[t.generation] = true
		m.status = unreported
		m.do(TookBack{})
	}
	if s.lost > 0 {
		m.do(Lost{s.lost})
		m.restoring += s.lost
		s.lost = 0
		m.meters.forget() // a flow goes with its meter
	}
	return true
}

// begin begins a generation, of which no flow stands.
func (m *machine) begin() {
	t := &m.memory.tenure
	t.generation = nextGeneration(m.now, m.standing.highest, m.random)
	m.traced[t.generation] = true
}
