// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
)

// SetChassis sets the local chassis, by its name (ovn-sb(5), Chassis). "" is none.
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

// HasChassis reports whether Southbound has a chassis of that name, or is not read, and whether
// that is sure: Southbound is in sync, or not read.
func (s *Source) HasChassis(name string) (has, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb == nil {
		return true, true
	}
	return len(s.sb.ChassisNamed[name]) > 0, s.sbConn.status.Synced
}

// Requests is what a plugin asks of a Source beside what the guests here need.
type Requests struct {
	// Routers has Snapshot.RouterScope work, and so the networks read that are joined to those
	// of the guests here and to Network.
	Routers bool
	// Network has the network that it refers to read, whichever guests are here, and all of
	// that name: for queries that did not come through a punt. A warning is logged if there is
	// none, or several have the name, and a line when there is one. It is zero for none.
	Network ovn.SwitchRef
	// ComparedNames are names of switches that a view or a limit compares with those of guests. A
	// warning is logged while several networks that are read have one of them. For that alone
	// nothing is read.
	ComparedNames []string
	// DNSServers has Port.DNSServers work, Gateways Network.Gateways.
	DNSServers, Gateways bool
	// Forwards has Network.Forwards work. It needs Northbound.
	Forwards bool
	// RouterNames has Port.Routers work.
	RouterNames bool
	// ExternalIDs has Port.ExternalID work for these keys. With keys that nobody has asked for
	// the database is read once more, unless it has not been read yet: rows are stored without
	// what nobody asks for.
	ExternalIDs []string
}

// Request asks for all that r says. The function that it returns takes that back.
func (s *Source) Request(r Requests) (release func()) {
	s.request(r, 1)
	return sync.OnceFunc(func() { s.request(r, -1) })
}

// request counts n more requests, or fewer.
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
		s.coverageChanged = true // that name may be ambiguous already
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

// requestScopes counts n more requests for Requests.Routers. mu is held, as in the
// other functions of request.
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
		s.coverageChanged = true // what is still wanted may be known
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

// requestOfPorts counts n more users of something that ports or their networks say.
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

// SetPorts sets the logical ports that have an interface here, by
// external_ids:iface-id of the local Interfaces. They are those of one owner, such as a
// bridge: all owners together have all of them. Where Northbound is read alone
// they are the guests, and no snapshot is settled before the first call. Where
// Southbound is read, a guest whose binding vanishes is kept for the grace while it has
// its interface.
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

// unsettle is for when more rows are wanted: no snapshot is settled before the databases
// have followed, the present one neither, as the next may take a while. mu is held.
func (s *Source) unsettle() {
	s.coverageChanged = true
	if now := s.snapshot.Load(); now.Settled {
		now := *now
		now.Settled = false
		s.snapshot.Store(&now)
	}
}
