// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/build"
	"github.com/puntdns/puntdns/internal/ovn/problem"
)

func (s *Source) build(prev *ovn.Snapshot) *ovn.Snapshot {
	if s.coverageChanged {
		s.markNew(prev)
	}
	e := prev.Edit()
	s.buildNetworks(e)
	s.buildNames(e)
	scopes := &build.ScopeInputs{Graph: s.topology, Covered: s.coverage(), Changed: s.dirty, Rowless: s.grace.rowless}
	s.components.BuildScopes(scopes, prev, e)
	if s.sb != nil {
		s.buildLocal(e)
	}
	count := s.dnsCount()
	e.SetRows(count.Rows, count.Records)
	next := e.Done()
	next.Settled = s.isSettled()
	return next
}

func (s *Source) built(next *ovn.Snapshot) {
	s.noteNetworks(next)
	now := s.findLogged(next)
	s.log.add(notices(s.logged, now)...)
	s.logged = now
	clear(s.dirty)
	s.coverageChanged = false
}

// Networks and guests that the snapshot lacks may be covered now.
func (s *Source) markNew(prev *ovn.Snapshot) {
	for id := range s.topology.NetworkIDs {
		if prev.Network(id) == nil {
			s.markDirty(id, true)
		}
	}
	for id := range s.grace.rowless {
		s.markDirty(id, true)
	}
	for id := range s.awaitingGroups {
		s.markDirty(id, true)
	}
}

func (s *Source) buildLocal(e *ovn.Editor) {
	// An empty Southbound has no stage, but the switch keeps its flows while guests are retained.
	if stage := s.sb.DNSStage(); len(stage.Cookies) > 0 || len(s.grace.Guests) == 0 {
		e.SetStage(stage)
	}
	s.builtFlows = s.sb.Flows.Version()
	e.SetLocal(s.sb.Self, s.grace.ByInterface())
}

func (s *Source) networkInputs() *build.Inputs {
	in := &build.Inputs{View: s.topology, Southbound: s.sb, Northbound: s.nb, Coverage: s.coverage(), Retained: s.grace.Guests, Plugged: s.plugged, AwaitingGroups: s.awaitingGroups}
	if s.sb != nil {
		in.Guests = s.guestInputs(time.Time{})
	}
	return in
}

func (s *Source) buildNetworks(e *ovn.Editor) {
	in := s.networkInputs()
	s.builtProblems = make(map[origin.Network]problem.Set)
	for id, withPorts := range s.dirty {
		old := e.Network(id)
		if old != nil {
			s.markName(old.Name)
		}
		if withPorts {
			delete(s.awaitingGroups, id)
		}
		p := s.bad.OfNetwork(id)
		n := in.Network(id, old, withPorts, &p)
		if n != nil {
			s.builtProblems[id] = p
			delete(s.grace.rowless, id)
		} else {
			delete(s.coveredNetworks, id)
			n = s.rowlessNetwork(old)
		}
		if n == nil {
			e.Remove(id)
			continue
		}
		s.markName(n.Name)
		e.Put(n)
	}
}
