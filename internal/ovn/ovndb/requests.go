// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
)

func (s *Source) setChassis(name string) {
	if s.chassis == name {
		return
	}
	s.restore(name)
	s.chassis = name
	if s.sb != nil {
		s.sb.SetChassis(name)
	}
	s.update()
}

// HasChassis reports whether Southbound has a chassis of this name; sure is set if Southbound is in sync.
// Both are true without Southbound.
func (s *Source) HasChassis(name string) (has, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb == nil {
		return true, true
	}
	return len(s.sb.ChassisNamed[name]) > 0, s.sbConn.status.Synced
}

// Requests is what a plugin needs beside the networks of local guests.
type Requests struct {
	// Routers enables Snapshot.RouterScope.
	Routers bool
	// Network requests a network for queries that did not come through a punt. Several networks of the same
	// name cause a warning.
	Network ovn.SwitchRef
	// ComparedNames are switch names in a view or a limit. The Source warns while a name is ambiguous, but
	// reads no rows for it.
	ComparedNames []string
	// Port.DNSServers, Network.Gateways
	DNSServers, Gateways bool
	// Forwards enables Network.Forwards. It needs Northbound.
	Forwards bool
	// Egress enables Port.Egress. It needs Northbound.
	Egress bool
	// RouterNames enables Port.Routers, GroupNames Port.Groups.
	RouterNames, GroupNames bool
	// ExternalIDs enables Port.ExternalID for these keys. A new key makes the Source read all rows again.
	ExternalIDs []string
}

func (s *Source) Request(r Requests) (release func()) {
	s.request(r, 1)
	return sync.OnceFunc(func() { s.request(r, -1) })
}

func (s *Source) request(r Requests, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Routers {
		s.requestScopes(n)
	}
	if !r.Network.IsZero() {
		s.requestNetwork(r.Network, n)
	}
	for _, name := range r.ComparedNames {
		s.references.Compare(name, n)
		s.coverageChanged = true // the name may be ambiguous already
	}
	if r.RouterNames || len(r.ExternalIDs) > 0 {
		s.requestLabels(r.RouterNames, r.ExternalIDs, n)
	}
	if r.GroupNames {
		s.requestOfPorts(&s.groupUsers, n)
	}
	if r.Egress {
		s.requestOfPorts(&s.egressUsers, n)
	}
	if r.DNSServers {
		s.requestOfPorts(&s.dnsServerUsers, n)
	}
	if r.Gateways {
		s.requestOfPorts(&s.gatewayUsers, n)
	}
	if r.Forwards {
		s.requestOfPorts(&s.forwardUsers, n)
	}
	s.update()
}

func (s *Source) requestScopes(n int) {
	had := s.scopeUsers > 0
	s.scopeUsers += n
	switch has := s.scopeUsers > 0; {
	case has == had:
		return
	case has:
		s.components.Use(s.topology)
		s.unsettle()
	default:
		s.components.Use(nil)
	}
	s.conditionsDirty, s.coverageChanged = true, true
}

func (s *Source) requestNetwork(r ovn.SwitchRef, n int) {
	had := s.references.Count(r, n)
	if s.references.Networks[r] == 0 {
		s.coverageChanged = true
	}
	s.conditionsDirty = true
	if !had {
		s.unsettle()
	}
}

func (s *Source) requestLabels(routers bool, keys []string, n int) {
	routersChanged, added := s.labels.count(routers, keys, n)
	if routersChanged {
		s.conditionsDirty = true
		s.markAllPorts()
	}
	topology := s.databases[0]
	if len(added) > 0 {
		topology.readKeys(added)
	}
	if topology.forgetKeysExcept(s.labelKeys()) {
		s.coverageChanged = true
	}
	if n > 0 && (routersChanged || len(added) > 0) {
		s.unsettle()
	}
}

func (s *Source) requestOfPorts(users *int, n int) {
	had := *users > 0
	*users += n
	has := *users > 0
	if had == has {
		return
	}
	s.markAllPorts()
	s.conditionsDirty = true
	if has {
		s.unsettle()
	}
}

// unsettle unsets Settled until the rows of a new request have come, as the next snapshot may take a while.
func (s *Source) unsettle() {
	s.coverageChanged = true
	if now := s.snapshot.Load(); now.Settled {
		now := *now
		now.Settled = false
		s.snapshot.Store(&now)
	}
}
