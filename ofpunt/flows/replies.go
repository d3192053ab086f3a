// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

func (m *machine) replied(reply reply) {
	asked := m.outstanding
	m.outstanding = nil
	var refused *openflow.SwitchError
	bySwitch := errors.As(reply.Err, &refused)
	switch r := asked.(type) {
	case monitor:
		if !m.failed(reply.Err, "monitoring the flows of table %d", r.Table) {
			m.monitored[r.Table] = true
		}
	case barrier:
		if !m.failed(reply.Err, "waiting for the switch") {
			m.dirty, m.fresh = false, true
		}
	case readFlows:
		m.repliedFlows(reply)
	case apply:
		m.repliedApply(r, reply.Err)
	case readMeters:
		switch {
		case bySwitch:
			m.meters.load(0, nil) // a switch without meters
		case !m.failed(reply.Err, "reading the meters"):
			m.meters.load(reply.MaxMeter, reply.Meters)
		}
	case modMeters:
		m.repliedMeters(r, reply.Err)
	case readMeterStats:
		if !bySwitch && !m.failed(reply.Err, "reading what the meters have dropped") {
			if dropped := m.meters.count(reply.Stats); dropped.Packets > 0 {
				m.do(dropped)
			}
		}
	}
}

func (m *machine) failed(err error, format string, args ...any) bool {
	if err == nil {
		return false
	}
	m.ended = true
	m.do(fail{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)})
	return true
}

func (m *machine) repliedFlows(reply reply) {
	switch what := m.reading; what.purpose {
	case forStage:
		if !m.failed(reply.Err, "looking for OVN's DNS stage") {
			m.stage.found(what.stage, reply.Flows)
		}
		return
	case forTrace:
		m.traced[what.generation] = true
	case forSweep:
		m.memory.swept++
	case forOpenings:
		if !m.failed(reply.Err, "reading the openings of egress policies") {
			m.readOpenings(reply.Flows)
		}
		return
	case forGuest:
		if !m.failed(reply.Err, "reading the openings of a guest") {
			m.looked(what.guest, reply.Flows)
		}
		return
	case forLapses:
		if !m.failed(reply.Err, "reading the openings of all guests") {
			m.lookedAtAll(reply.Flows)
		}
		return
	}
	if m.failed(reply.Err, "reading the flows of earlier processes") {
		return
	}
	for i := range reply.Flows {
		f := &reply.Flows[i]
		if _, ok := m.readOpening(f.Table, f.Priority, f.Match); !ok && !m.connections.found(f.Cookie) {
			m.observed.read(f)
		}
	}
}

// repliedApply takes in a change's result, then the updates deferred meanwhile.
func (m *machine) repliedApply(r apply, err error) {
	deferred, stale := m.deferred, m.stale
	m.deferred, m.stale, m.todoAt = nil, 0, versions{}
	if m.openings.writing != nil {
		var refused *openflow.SwitchError
		adds := func(f openflow.FlowMod) bool { return f.Command == openflow.Add }
		if err == nil || errors.As(err, &refused) && slices.ContainsFunc(r.Mods, adds) {
			m.wrote(err)
			err = nil
		}
	}
	if err != nil {
		m.observe(deferred)
		m.failed(err, "installing flows")
		return
	}
	m.observed.applied(r.Mods, m.adding)
	for _, f := range m.adding {
		if f.key == leaseKey {
			m.leased = m.now
		}
	}
	if len(m.adding) > 0 && !m.withdrawing {
		lost := min(m.lostFlows, len(m.adding))
		m.lostFlows = 0
		m.do(Installed{New: len(m.adding) - lost, Lost: lost})
	}
	// Earlier events do not show a changed flow's present state.
	changed := make(map[flowKey]bool, len(r.Mods))
	for i := range r.Mods {
		changed[keyOf(&r.Mods[i])] = true
	}
	for i := range deferred {
		u := &deferred[i]
		if i >= stale || !changed[keyOfUpdate(u)] {
			m.observe(deferred[i : i+1])
		} else if ours(u.Cookie) {
			// The flow is gone, but a later process may have begun.
			m.observed.highest = max(m.observed.highest, generationOf(u.Cookie))
		}
	}
}

func (m *machine) repliedMeters(r modMeters, err error) {
	m.todoAt = versions{}
	if err != nil {
		// The switch may have made some before refusing another.
		m.observed.rebind(m.plan.metered(r.Mods))
		if !m.blameMeters(err) {
			m.failed(err, "changing meters")
		}
		return
	}
	m.meters.applied(r.Mods)
	if r.Mods[0].Command == openflow.Delete {
		return
	}
	m.observed.rebind(m.plan.metered(r.Mods))
	if m.memory.limits == limitsRefused {
		m.memory.limits = limitsEnforced
		m.do(MetersEnforced{})
	}
}

// blameMeters reports whether err is about meters. The machine then reads them again and retries soon.
func (m *machine) blameMeters(err error) bool {
	blamed, refused := m.meters.blame(err)
	if !blamed {
		return false
	}
	if refused {
		m.refuseMeters(err)
	}
	if !m.withdrawing {
		m.paused = true
		m.reportWaiting("the meters of the switch have changed")
		m.do(retrySoon{})
	}
	return true
}
