// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// pipeline returns where the flows belong, or a request to find out. ok is false until known.
func (m *machine) pipeline() (of pipeline, r request, ok bool) {
	w := m.want
	of = pipeline{placement.Pipeline{Kind: w.Kind, Table: w.Table, Priority: w.Priority}, w.Service}
	of.service.Cookie = cookieOf(m.generation())
	if w.Kind == placement.OVN {
		table, known, cookie, more := m.stage.find(w.Stage)
		switch {
		case more:
			m.reading = reading{purpose: forStage, stage: w.Stage}
			return of, readFlows{Table: openflow.TableAll, Cookie: uint64(cookie), Mask: exactMask}, false
		case known:
			of.Table = table
			if w.Stage.StatefulID > 0 {
				// Tables of OVN's stages are consecutive.
				of.EgressTable = table - uint8(w.Stage.TableID-w.Stage.StatefulID)
			}
		case w.Settled && len(w.Guests) == 0:
			// A chassis without guests lacks OVN's logical pipeline.
			of.Table = 0
		default:
			m.reportWaiting("OVN's DNS stage is not known yet: " + w.stageUnknown())
			m.do(retrySoon{})
			return of, nil, false
		}
	}
	for _, table := range of.tables() {
		if !m.monitored[table] {
			return of, monitor{table}, false
		}
	}
	return of, nil, true
}

func (w *Want) stageUnknown() string {
	switch {
	case w.Unsynced:
		return "the databases have not been read so far"
	case len(w.Stage.Cookies) == 0:
		return "the Southbound database has no logical flow of ls_in_dns_lookup"
	default:
		return fmt.Sprintf("the switch has no flow of logical table %d, so ovn-controller has not installed its flows or they were deleted; if this lasts, restart ovn-controller", w.Stage.TableID)
	}
}

func (m *machine) distribute() {
	if m.distribution == m.meters.version && sameGuests(m.distributed, m.want.Guests) {
		return
	}
	switch enough := m.meters.assign(m.want.Guests); {
	case !enough && m.memory.limits != limitsShort:
		m.memory.limits = limitsShort
		m.do(MetersShort{m.meters.last - m.meters.first + 1})
	case enough && m.memory.limits == limitsShort:
		m.memory.limits = limitsEnforced
		m.do(MetersEnforced{})
	}
	m.distributed, m.distribution = m.want.Guests, m.meters.version
}

func (m *machine) change() request {
	now := versions{m.plan.version, m.observed.version, m.meters.version, m.leaseWanted(), m.want.Settled, true}
	if now == m.placed {
		return nil
	}
	if now != m.todoAt {
		m.todo, m.todoAt = m.difference(now.lease, now.settled), now
	}
	if m.todo == nil {
		m.placed = now
		return nil
	}
	return m.afterBarrier(m.todo)
}

// afterBarrier returns a barrier first: the process may have been stopped, and must see what has happened meanwhile.
func (m *machine) afterBarrier(r request) request {
	if !m.fresh {
		return barrier{}
	}
	return r
}

// leaseWanted is false while probes are overdue and the lease flow is missing: a stuck process lets it expire.
func (m *machine) leaseWanted() bool {
	return m.plan.lease != nil && (!m.lease.overdue || m.observed.hasLease(m.generation()))
}

// difference returns the first missing change: meters that flows name, flows, superfluous meters. Flows that another
// program has removed are missing too.
func (m *machine) difference(lease, settled bool) request {
	if mods := m.meters.missing(); len(mods) > 0 {
		return modMeters{mods}
	}
	m.adding = m.plan.missing(&m.observed, lease)
	mods := make([]openflow.FlowMod, 0, len(m.adding))
	for _, f := range m.adding {
		mods = append(mods, f.mod)
	}
	if settled {
		// Until then the plan may be incomplete.
		mods = append(mods, m.observed.superfluous(func(f *flow) bool { return !m.plan.wants(f.key, lease) })...)
	}
	if len(mods) > 0 {
		return apply{mods}
	}
	if settled {
		if mods := m.meters.superfluous(); len(mods) > 0 {
			return modMeters{mods}
		}
	}
	return nil
}

func (m *machine) inPlace() {
	hasLease := m.observed.hasLease(m.generation())
	if m.observed.expired && hasLease {
		m.observed.expired, m.reportedExpired = false, false
		m.do(LeaseRestored{})
	}
	m.lostFlows = 0
	p := Placed{First: !m.placedBefore, Again: m.placedBefore && m.status == waiting, Guests: len(m.plan.order), Before: m.guests, Flows: len(m.observed.flows)}
	if m.plan.of.Kind == placement.OVN {
		p.Table = m.plan.of.Table
	}
	if p.First || p.Again || p.Guests != p.Before || p.Flows != m.flows {
		m.do(p)
	}
	m.placedBefore, m.guests, m.flows = true, p.Guests, p.Flows
	now := serving
	if m.plan.lease != nil && !hasLease {
		now = leaseMissing
	}
	if m.status == now {
		return
	}
	m.status = now
	if now == serving {
		m.do(Serving{})
	} else {
		m.do(LeaseMissing{})
	}
}

func (m *machine) refuseMeters(why error) {
	m.meters.refused = true
	if m.memory.limits != limitsRefused {
		m.memory.limits = limitsRefused
		m.do(MetersRefused{why})
	}
}
