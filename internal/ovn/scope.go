// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Scope is the networks whose names an asker sees: Own, which it is on, and those
// joined to it. The zero Scope is none: its methods must not be called.
type Scope struct {
	Own *Network
	names.Scope
}

// Networks returns the networks of a scope, Own among them, by their ids.
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
	return Scope{own, names.NewScope(&own.Directory, joined)}
}
