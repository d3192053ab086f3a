// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// done takes the reply to the outstanding request.
func (m *machine) done(reply done) {
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
		m.doneReading(reply)
	case apply:
		m.doneApplying(r, reply.Err)
	case readMeters:
		switch {
		case bySwitch:
			m.meters.take(0, nil) // a switch that knows no meters has none
		case !m.failed(reply.Err, "reading the meters"):
			m.meters.take(reply.MaxMeter, reply.Meters)
		}
	case modMeters:
		m.doneMeters(r, reply.Err)
	case readMeterStats:
		if !bySwitch && !m.failed(reply.Err, "reading what the meters have dropped") {
			if n := m.meters.count(reply.Stats); n > 0 {
				m.do(Dropped{n})
			}
		}
	}
}

// failed reports whether there is an error, which ends the connection.
func (m *machine) failed(err error, format string, args ...any) bool {
	if err == nil {
		return false
	}
	m.ended = true
	m.do(fail{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)})
	return true
}

func (m *machine) doneReading(reply done) {
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
	}
	if m.failed(reply.Err, "reading the flows of earlier processes") {
		return
	}
	for i := range reply.Flows {
		m.standing.read(&reply.Flows[i])
	}
}

func (m *machine) doneApplying(r apply, err error) {
	meanwhile, older := m.meanwhile, m.older
	m.meanwhile, m.older, m.todoAt = nil, 0, picture{}
	if err != nil {
		m.takeIn(meanwhile)
		if !m.blameMeters(err, true) {
			m.failed(err, "installing flows")
		}
		return
	}
	m.standing.applied(r.Mods, m.adding)
	if len(m.adding) > 0 && !m.leaving {
		lost := min(m.restoring, len(m.adding))
		m.restoring = 0
		m.do(Installed{New: len(m.adding) - lost, Lost: lost})
	}
	// What was told of these flows before they were changed says nothing any more.
	changed := make(map[flowKey]bool, len(r.Mods))
	for i := range r.Mods {
		changed[keyOf(&r.Mods[i])] = true
	}
	for i := range meanwhile {
		u := &meanwhile[i]
		if i >= older || !changed[keyOfUpdate(u)] {
			m.takeIn(meanwhile[i : i+1])
		} else if ours(u.Cookie) {
			// The flow is gone, but a later process may have begun.
			m.standing.highest = max(m.standing.highest, generationOf(u.Cookie))
		}
	}
}

func (m *machine) doneMeters(r modMeters, err error) {
	m.todoAt = picture{}
	if err != nil {
		if !m.blameMeters(err, false) {
			m.failed(err, "changing meters")
		}
		return
	}
	m.meters.applied(r.Mods)
	if m.memory.unmetered && r.Mods[0].Command != openflow.Delete {
		m.memory.unmetered = false
		m.do(MetersEnforced{})
	}
}

// blameMeters reports whether an error is about meters; then all is tried again soon.
func (m *machine) blameMeters(err error, flows bool) bool {
	blamed, refused := m.meters.blame(err, flows)
	if !blamed {
		return false
	}
	if refused {
		m.refuseMeters(err)
	}
	if !m.leaving {
		m.paused = true
		m.wait("the meters of the switch have changed")
		m.do(retrySoon{})
	}
	return true
}
