// SPDX-License-Identifier: Apache-2.0

package ovn

import "github.com/puntdns/puntdns/internal/origin"

// Scope is the networks whose names an asker sees: Own, which he is on, and those
// joined to it. The zero Scope is none. Its methods neither lock nor allocate.
type Scope struct {
	Own *Network
	// joined are in the order of their UUIDs, Own among them; nil for Own alone.
	joined []*Network
}

// SwitchScope is a network by itself, the zero Scope if it is not known.
func (s *Snapshot) SwitchScope(id origin.Network) Scope { return Scope{Own: s.Network(id)} }

// RouterScope is a network with those that logical routers join to it: all that
// can be reached over routers, and over switches between routers. A network with
// a localnet port is never joined to another: it is that of a provider, where
// the routers of all tenants meet.
//
// It is the zero Scope as long as there is no picture of the network and of all
// that is joined to it, and where Source.JoinNetworks was not called. A network
// that is joined later comes in when it is known as a whole, and the scope stays
// meanwhile.
func (s *Snapshot) RouterScope(id origin.Network) Scope {
	first, ok := s.groups.get(id)
	if !ok {
		return Scope{}
	}
	joined, _ := s.joined.get(first)
	return Scope{s.Network(id), joined}
}

// Lookup asks the networks in turn, Own first and the others in the order of
// their UUIDs, as Network.Lookup does. The first that knows the name answers, as
// a whole.
func (s Scope) Lookup(name, domain string) (Answer, bool) {
	a, ok := s.Own.Lookup(name, domain)
	for i := 0; !ok && i < len(s.joined); i++ {
		if s.joined[i] != s.Own {
			a, ok = s.joined[i].Lookup(name, domain)
		}
	}
	return a, ok
}

// Empty is Network.Empty of any of the networks.
func (s Scope) Empty(name, domain string) bool {
	empty := s.Own.Empty(name, domain)
	for i := 0; !empty && i < len(s.joined); i++ {
		empty = s.joined[i] != s.Own && s.joined[i].Empty(name, domain)
	}
	return empty
}
