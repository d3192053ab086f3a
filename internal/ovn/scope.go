// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Scope is the networks whose names an asker sees: Own, which it is on, and those
// joined to it. The zero Scope is none: its methods must not be called.
type Scope struct {
	Own *Network
	names.Scope
	members *members // nil for Own alone
}

// members are the networks that are joined to each other, in the order of their
// UUIDs. They are immutable, but for what is remembered in machines.
type members struct {
	networks    []*Network
	directories []*names.Directory // of the networks
	// machines has, by the address that hasMachine was asked for, what it has returned.
	// Queries ask for the DNS servers of their guests' DHCP only, so there are few.
	machines *sync.Map
}

// newMembers lists networks that are joined. What old has found holds on where their ports are
// the same; it may be nil.
func newMembers(networks []*Network, old *members) *members {
	m := &members{networks, make([]*names.Directory, 0, len(networks)), new(sync.Map)}
	if old != nil && slices.EqualFunc(networks, old.networks, func(a, b *Network) bool { return a.ports == b.ports }) {
		m.machines = old.machines
	}
	for _, n := range networks {
		m.directories = append(m.directories, &n.Directory)
	}
	return m
}

// hasMachine reports whether a port of any of the networks is a machine with the address. To
// look it up in each is for the first query that asks.
func (m *members) hasMachine(a netip.Addr) bool {
	if known, ok := m.machines.Load(a); ok {
		return known.(bool)
	}
	has := slices.ContainsFunc(m.networks, func(n *Network) bool { return n.hasMachine(a) })
	m.machines.Store(a, has)
	return has
}

// SwitchScope is a network by itself, the zero Scope if it is not known.
func (s *Snapshot) SwitchScope(id origin.Network) Scope {
	own := s.Network(id)
	if own == nil {
		return Scope{}
	}
	return Scope{Own: own, Scope: names.NewScope(&own.Directory, nil)}
}

// RouterScope is a network with those that logical routers join to it: all that
// can be reached over routers, and over switches between routers. A network with
// a localnet port is never joined to another: it is that of a provider, where
// the routers of all tenants meet.
//
// It is the zero Scope until the network and all that is joined to it are complete, and
// without Requests.Routers. A network that is joined later is added when it
// is complete, and the scope stays as it is until then.
func (s *Snapshot) RouterScope(id origin.Network) Scope {
	first, ok := s.leader.Get(id)
	if !ok {
		return Scope{}
	}
	own := s.Network(id)
	if own == nil {
		return Scope{}
	}
	joined, _ := s.joined.Get(first)
	if joined == nil {
		return s.SwitchScope(id)
	}
	return Scope{own, names.NewScope(&own.Directory, joined.directories), joined}
}
