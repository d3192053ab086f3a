// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// pipeline returns the place of the flows, and reports whether it is known. It returns a request if the
// switch has to be asked first.
func (m *machine) pipeline() (of pipeline, r request, ok bool) {
	w := m.want
	of = pipeline{placement.Pipeline{Kind: w.Kind, Table: w.Table, Priority: w.Priority}, w.Service}
	of.service.Cookie = cookieOf(m.generation())
	if w.Kind == placement.OVN {
		table, known, cookie, more := m.stage.find(w.Stage)
		switch {
		case more:
			m.reading = reading{purpose: forStage, stage: w.Stage}
			return of, readFlows{openflow.TableAll, uint64(cookie), exactMask}, false
		case known:
			of.Table = table
		case w.Settled && len(w.Guests) == 0:
			// A chassis without a guest has none of OVN's logical pipeline.
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

// stageUnknown says why the stage is not known.
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

// distribute assigns meters to the guests.
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

// change is the next change that brings the switch nearer to the plan, nil if it has the
// plan. A barrier comes before each.
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

// afterBarrier is a change if a barrier has just come back, else the barrier: this process
// may have been stopped, and what has happened meanwhile comes first.
func (m *machine) afterBarrier(r request) request {
	if !m.fresh {
		return barrier{}
	}
	return r
}

// leaseWanted reports whether the lease flow should be installed. A process that is stuck lets it
// expire.
func (m *machine) leaseWanted() bool {
	return m.plan.lease != nil && (!m.lease.overdue || m.observed.hasLease(m.generation()))
}

// difference compares the plan with the observed flows. It returns the first missing change, nil if none is
// missing: meters that flows name, flows, then meters that no flow names any more. A flow that another
// program has removed is missing like a new one, so the machine puts it back. Nothing is removed before the
// plan is settled.
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

// inPlace reports what has come about now that the switch has the plan.
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

// refuseMeters gives the meters up for as long as the connection lives: guests are served
// without.
func (m *machine) refuseMeters(why error) {
	m.meters.refused = true
	if m.memory.limits != limitsRefused {
		m.memory.limits = limitsRefused
		m.do(MetersRefused{why})
	}
}
