// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Scope is a guest's own network and the networks that routers join to it. The zero Scope is unusable.
type Scope struct {
	Own *Network
	names.Scope
}

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

func (s *Snapshot) SwitchScope(id origin.Network) Scope {
	own := s.Network(id)
	if own == nil {
		return Scope{}
	}
	return Scope{Own: own, Scope: names.NewScope(&own.Directory, nil)}
}

// RouterScope returns a network and all networks that logical routers join to it, also over switches between
// routers. A network with a localnet port stays alone: routers of all tenants meet there.
//
// The result is zero without Requests.Routers, and until all the networks are in the snapshot.
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
