// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// withdraw is the next request of a process that withdraws its flows: it releases its lease flow, removes its
// flows and the flows of processes before it, then its meters. The flows of a process that took over stay, and so
// do the flows of closed guests if the process is asked to keep them.
func (m *machine) withdraw() request {
	if r := m.trace(); r != nil {
		return r // an entry flow that stays would lead to a table without flows
	}
	generation := m.generation()
	replaced := m.observed.highest > generation
	if !m.releasedLease && !replaced {
		if f := m.observed.knownLease(generation); f != nil {
			if !m.fresh {
				return barrier{}
			}
			m.releasedLease = true
			mod := f.mod
			// It goes with the other flows in a moment, or by itself.
			mod.Command, mod.HardTimeout, mod.Cookie = openflow.Add, 1, cookieOf(releasedGeneration)
			m.adding = []*flow{newFlow(mod)}
			return apply{[]openflow.FlowMod{mod}}
		}
	}
	var closed map[placement.Key]bool
	if m.keepClosed && !replaced {
		closed = m.observed.closed()
	}
	if mods := m.observed.superfluous(func(f *flow) bool {
		return generationOf(f.mod.Cookie) <= generation && !placement.OfClosed(&f.mod, closed)
	}); len(mods) > 0 {
		m.adding = nil
		return m.afterBarrier(apply{mods})
	}
	if !replaced && m.meters.known {
		clear(m.meters.assigned)
		if mods := m.meters.superfluous(); len(mods) > 0 {
			return m.afterBarrier(modMeters{mods})
		}
	}
	if !m.fresh {
		return barrier{}
	}
	m.ended = true
	m.do(Withdrawn{Replaced: replaced, Closed: len(closed)})
	return nil
}
