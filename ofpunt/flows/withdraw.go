// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// withdraw releases the lease flow, removes flows of this and earlier processes, then meters. Flows of a later
// process stay, and with keep those that outlive a process.
func (m *machine) withdraw() request {
	if r := m.trace(); r != nil {
		return r // an entry flow that stays would lead to an empty table
	}
	generation := m.generation()
	replaced := m.observed.highest > generation
	if f := m.observed.knownLease(generation); f != nil && !m.releasedLease && !replaced {
		return m.releaseLease(f)
	}
	var closed map[placement.Key]bool
	keep := m.keep && !replaced
	if keep {
		closed = m.observed.closed()
	}
	if mods := m.observed.superfluous(func(f *flow) bool {
		return generationOf(f.mod.Cookie) <= generation && !placement.OfClosed(&f.mod, closed) && !(keep && placement.IsEgress(&f.mod))
	}); len(mods) > 0 {
		m.adding = nil
		return m.afterBarrier(apply{mods})
	}
	if !m.keep && !replaced {
		if r := m.closeEgress(); r != nil {
			return r
		}
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

func (m *machine) closeEgress() request {
	for _, e := range m.openings.all {
		m.closeOpening(e)
	}
	if r := m.writeOpenings(m.plan.of.service); r != nil {
		return r
	}
	if mods := m.connections.removals(nil); len(mods) > 0 {
		return m.applyConnections(mods)
	}
	return nil
}

// releaseLease installs a released flow that lasts a second.
func (m *machine) releaseLease(f *flow) request {
	if !m.fresh {
		return barrier{}
	}
	m.releasedLease = true
	mod := f.mod
	mod.Command, mod.HardTimeout, mod.Cookie = openflow.Add, 1, cookieOf(releasedGeneration)
	m.adding = []*flow{newFlow(mod)}
	return apply{[]openflow.FlowMod{mod}}
}
