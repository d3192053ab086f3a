// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// heartbeat sends a probe if a flow of this process can return it.
func (m *machine) heartbeat() {
	m.stage.again()
	if !m.placedBefore && !m.observed.hasLease(m.generation()) || len(m.observed.flows) == 0 || m.memory.ownership.yielding || m.withdrawing || m.want == nil {
		m.lease.cancel()
		return
	}
	token, missed := m.lease.heartbeat(m.now, m.random)
	if missed {
		m.do(ProbeMissed{m.want.Heartbeat})
	}
	m.do(sendProbe{token})
	m.countDue = m.want.Limited && m.meters.known && m.meters.last > 0
	m.tablesDue = tablesPerBeat
	m.connections.again()
}

func (m *machine) probeBack(token uint64) {
	sent := m.lease.sent
	back, recovered := m.lease.returned(token)
	if !back {
		return
	}
	m.probed = m.now
	m.do(ProbeTook{m.now.Sub(sent)})
	if recovered {
		m.do(ProbesBack{})
	}
	lease := m.observed.knownLease(m.generation())
	if lease == nil || m.want == nil || m.want.Service.Lease == 0 || m.memory.ownership.yielding || m.withdrawing {
		return
	}
	f := lease.mod
	// A strict modify restarts the hard timeout and preserves counters. The cookie spares a later process's flow.
	f.Command, f.CookieMask = openflow.ModifyStrict, exactMask
	m.leased = m.now
	m.do(renew{f})
}
