// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func (s *Source) markDirty(id origin.Network, withPorts bool) {
	s.dirty[id] = s.dirty[id] || withPorts
}

func (s *Source) markAllPorts() {
	for id := range s.topology.NetworkIDs {
		s.markDirty(id, true)
	}
}

func (s *Source) isDirty() bool {
	return len(s.dirty) > 0 || s.coverageChanged || len(s.components.Touched) > 0 || s.sb != nil && s.sb.Flows.Version() != s.builtFlows
}

func (s *Source) setConditions(now time.Time) {
	due := s.conditionsDue()
	if !s.conditionsDirty && (due.IsZero() || now.Before(due)) {
		return
	}
	s.conditionsDirty = false
	in := s.interestInputs()
	if s.sb != nil {
		s.sbConn.ask(interest.Southbound(s.sb, in), now)
	}
	if s.nb == nil {
		return
	}
	var switches []ovsdb.UUID
	if s.sb != nil {
		switches = interest.SwitchesOf(s.sb, s.sbConn.Latest.Conditions)
		if s.follows != s.sbConn.Latest.Gen {
			s.follows, s.nbConn.NarrowAt = s.sbConn.Latest.Gen, now // rows that Southbound gave up go here too
		}
	}
	s.nbConn.ask(interest.Northbound(s.nb, s.sb, switches, in), now)
	if s.local {
		s.dropUnasked()
	}
}

func (s *Source) interestInputs() *interest.Inputs {
	return &interest.Inputs{
		Uses: s.uses(), References: &s.references,
		Retained: s.grace.DatapathKeys(), Ports: s.portsByName(), Plugged: s.plugged,
	}
}

func (s *Source) dropUnasked() {
	for id := range s.nb.Switches.All() {
		_, covered := s.coveredNetworks[origin.Network(id)]
		if covered && !s.nbConn.Latest.Has(topology.TableSwitch, interest.RowWithID(id)) {
			delete(s.coveredNetworks, origin.Network(id))
			s.markDirty(origin.Network(id), true)
		}
	}
}

func (s *Source) conditionsDue() (due time.Time) {
	for _, d := range s.databases {
		due = binding.Earlier(due, d.NarrowAt)
	}
	return due
}

func (s *Source) uses() interest.Uses {
	return interest.Uses{
		Local: s.local, Southbound: s.sb != nil, RouterScopes: s.components.IsUsed(), Gateways: s.gatewayUsers > 0,
		RouterNames: s.labels.routerUsers > 0, GroupNames: s.groupUsers > 0, DNSServers: s.dnsServerUsers > 0, Forwards: s.forwardUsers > 0,
		Egress: s.egressUsers > 0 && s.nb != nil,
	}
}

func (s *Source) coverage() interest.Coverage {
	c := interest.Coverage{Uses: s.uses(), Southbound: s.sb, Northbound: s.nb, Networks: s.coveredNetworks}
	if s.sb != nil {
		c.SouthboundMonitor = &s.sbConn.Monitor
	}
	if s.nb != nil {
		c.NorthboundMonitor = &s.nbConn.Monitor
	}
	return c
}

func (s *Source) isSettled() bool {
	switch {
	case s.sb != nil && !s.sb.ChassisKnown:
		return false
	case s.sb == nil && len(s.localPorts()) == 0:
		return false
	case s.awaitsConfirmation():
		return false
	}
	return s.isAcknowledged()
}

func (s *Source) isAcknowledged() bool {
	for _, d := range s.databases {
		if !d.hasAll() {
			return false
		}
	}
	return true
}

func (s *Source) dnsCount() (sum topology.DNSCount) {
	for _, d := range s.databases {
		of := d.DNSCount
		sum.Rows, sum.Records = sum.Rows+of.Rows, sum.Records+of.Records
	}
	return sum
}

func (s *Source) takeChanges() {
	for i, d := range s.databases {
		c := d.Changes.Take()
		for id, p := range c.Networks {
			s.markChanged(id, p)
		}
		for name := range c.Names {
			s.markName(name)
		}
		for _, name := range c.Released {
			s.grace.noteReleased(name)
		}
		if i == 0 {
			for node := range c.Nodes {
				s.components.Touch(node)
			}
			s.conditionsDirty = s.conditionsDirty || s.components.IsUsed() && len(c.Nodes) > 0
		}
		s.conditionsDirty = s.conditionsDirty || c.Interest || c.Chassis
		s.coverageChanged = s.coverageChanged || c.Chassis
		for _, row := range c.BadRows {
			s.noteProblems(row, c.Problems[row])
		}
	}
}

// markChanged skips changes that no request uses.
func (s *Source) markChanged(id origin.Network, p topology.Part) {
	if p&topology.PartRow != 0 {
		delete(s.coveredNetworks, id) // another row needs other conditions
	}
	withPorts := p&(topology.PartPorts|topology.PartRow) != 0 || p&topology.PartServers != 0 && s.dnsServerUsers > 0 ||
		p&topology.PartRouters != 0 && (s.uses().Attachments() || s.forwardUsers > 0)
	if withPorts || p&topology.PartNames != 0 {
		s.markDirty(id, withPorts)
	}
}
