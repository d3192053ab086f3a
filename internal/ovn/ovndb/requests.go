// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
)

// SetChassis sets the name of the local chassis (ovn-sb(5), Chassis), "" for none.
func (s *Source) SetChassis(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// HasChassis reports whether Southbound has a chassis of this name; sure is set if Southbound is in sync. Both
// are true if Southbound is not read.
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
	// Routers enables Snapshot.RouterScope: networks are read that routers join to networks read already.
	Routers bool
	// Network requests a network without a local guest, for queries that did not come through a punt; zero for
	// none. If several networks have its name, all are read, with a warning.
	Network ovn.SwitchRef
	// ComparedNames are switch names that a view or a limit compares with the switches of guests. The Source
	// warns while one of them is ambiguous, but reads no rows for them.
	ComparedNames []string
	// DNSServers enables Port.DNSServers, Gateways enables Network.Gateways.
	DNSServers, Gateways bool
	// Forwards enables Network.Forwards. It needs Northbound.
	Forwards bool
	// RouterNames enables Port.Routers.
	RouterNames bool
	// ExternalIDs enables Port.ExternalID for these keys. Rows are stored without other keys, so a new key
	// makes the Source read all rows again.
	ExternalIDs []string
}

// Request adds requests; release removes them.
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
		s.coverageChanged = true // the remaining rows may have come
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
	if topology.keepKeys(s.labelKeys()) {
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

// SetPorts sets the logical ports that have an interface on one bridge, the owner, by external_ids:iface-id.
// With Southbound, a guest whose binding vanishes is retained for the grace while it has its interface. With
// Northbound alone these ports are the guests, and no snapshot is settled before the first call.
func (s *Source) SetPorts(owner any, names []string, grace time.Duration) {
	s.setPorts(func(known map[any]binding.LocalPorts) { known[owner] = binding.LocalPorts{Names: names, Grace: grace} })
}

// ForgetPorts undoes SetPorts and Unserved of an owner.
func (s *Source) ForgetPorts(owner any) {
	s.setPorts(func(known map[any]binding.LocalPorts) {
		delete(known, owner)
		delete(s.warm.confirmed, owner)
		if len(s.unservedPorts[owner]) > 0 {
			delete(s.unservedPorts, owner)
			s.conditionsDirty = true
		}
	})
}

func (s *Source) setPorts(edit func(map[any]binding.LocalPorts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.interfaces)
	edit(s.interfaces)
	var names []string
	for _, some := range s.interfaces {
		names = append(names, some.Names...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if s.sb != nil {
		s.plug(names, s.clock())
		if s.awaitsConfirmation() {
			s.unsettle()
		}
		s.update()
		return
	}
	if slices.Equal(names, s.plugged) && len(s.interfaces) == before {
		return
	}
	for _, name := range append(slices.Clone(s.plugged), names...) {
		s.nb.MarkPortNamed(name)
	}
	s.plug(names, s.clock())
	s.conditionsDirty = true
	s.unsettle()
	s.update()
}

// unsettle is called when more rows are wanted: no snapshot is settled until they have come. The present one
// must not be either, as the next may take a while.
func (s *Source) unsettle() {
	s.coverageChanged = true
	if now := s.snapshot.Load(); now.Settled {
		now := *now
		now.Settled = false
		s.snapshot.Store(&now)
	}
}
