// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Scope is the networks whose names a guest sees: its own, and the networks that routers join to it. The zero
// Scope is unusable.
type Scope struct {
	Own *Network
	names.Scope
}

// Networks returns the IDs of the networks in a scope, including Own.
func (s Scope) Networks() (all []origin.Network) {
	joined := s.Union()
	if joined == nil {
		return []origin.Network{s.Own.ID}
	}
	for id := range joined.All() {
		all = append(all, id)
	}
	return all
}

// SwitchScope returns the scope of one network, zero if the snapshot lacks it.
func (s *Snapshot) SwitchScope(id origin.Network) Scope {
	own := s.Network(id)
	if own == nil {
		return Scope{}
	}
	return Scope{Own: own, Scope: names.NewScope(&own.Directory, nil)}
}

// RouterScope returns the scope of a network and all networks that logical routers join to it, also over
// switches between routers. A network with a localnet port is joined to no other: on a provider network the
// routers of all tenants meet.
//
// The result is zero without Requests.Routers, and until all these networks are in the snapshot. A network that
// is joined later is added when it is in the snapshot.
func (s *Snapshot) RouterScope(id origin.Network) Scope {
	first, ok := s.scopeOf.Get(id)
	if !ok {
		return Scope{}
	}
	own := s.Network(id)
	if own == nil {
		return Scope{}
	}
	joined, _ := s.unions.Get(first)
	if joined == nil {
		return s.SwitchScope(id)
	}
	return Scope{own, names.NewScope(&own.Directory, joined)}
}
