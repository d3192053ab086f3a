// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// beat sends a probe through the switch, if there is a way through it that is ours.
func (m *machine) beat() {
	m.stage.again()
	if !m.started && !m.standing.hasPunt(m.generation()) || len(m.standing.flows) == 0 || m.memory.tenure.yielding || m.leaving || m.want == nil {
		m.lease.forget()
		return
	}
	token, missed := m.lease.beat(m.now, m.random)
	if missed {
		m.do(ProbeMissed{m.want.Beat})
	}
	m.do(sendProbe{token})
	m.countDue = m.want.Limited && m.meters.known && m.meters.last > 0
	m.tablesDue = tablesPerBeat
}

// probeBack renews the punt.
func (m *machine) probeBack(token uint64) {
	sent := m.lease.sent
	back, recovered := m.lease.returned(token)
	if !back {
		return
	}
	m.do(ProbeTook{m.now.Sub(sent)})
	if recovered {
		m.do(ProbesBack{})
	}
	punt := m.standing.knownPunt(m.generation())
	if punt == nil || m.want == nil || m.want.Service.Lease == 0 || m.memory.tenure.yielding || m.leaving {
		return
	}
	f := punt.mod
	// A strict modify restarts the hard timeout and leaves the flow's counters alone. Only
	// our own: a process that came later has another cookie.
	f.Command, f.CookieMask = openflow.ModifyStrict, exactMask
	m.do(renew{f})
}
