// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Found is what a name was found to be, for who asks for it once more. The zero value has
// found nothing.
type Found struct {
	snapshot *Snapshot
	own      *Network
	name     string
	match    names.Match
}

// FoundKey is the context key of a *Found.
type FoundKey struct{}

// Find reports whether a network knows a name, whatever domain completes the hostnames of
// ports. The name is as of [Network.Lookup].
func (f *Found) Find(s *Snapshot, id origin.Network, name string) bool {
	own := s.Network(id)
	if own == nil {
		return false
	}
	if m, ok := own.Exact(name); ok {
		*f = Found{s, own, name, m}
		return true
	}
	_, ok := own.Lookup(name, "")
	return ok
}

// Lookup is [Scope.Lookup] of a scope of s. It does not look up what f has found there.
func (f *Found) Lookup(s *Snapshot, scope Scope, name, domain string) (names.Answer, bool) {
	if f == nil || f.own == nil || f.snapshot != s || f.own != scope.Own || f.name != name {
		return scope.Lookup(name, domain)
	}
	return f.match.Answer(), true
}
