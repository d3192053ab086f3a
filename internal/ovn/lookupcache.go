// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// LookupCache passes one name's lookup from the punt server to ovnhosts.
type LookupCache struct {
	snapshot *Snapshot
	own      *Network
	name     string
	match    names.Match
}

type LookupCacheKey struct{}

// Prefetch reports whether a network has a name, without completing hostnames, and caches an exact match. It
// returns false for an alias, whose target may be elsewhere.
func (f *LookupCache) Prefetch(s *Snapshot, id origin.Network, name string) bool {
	own := s.Network(id)
	if own == nil {
		return false
	}
	if m, ok := own.Exact(name); ok {
		*f = LookupCache{s, own, name, m}
		return true
	}
	a, ok := own.Lookup(name, "")
	return ok && a.RRs.Alias() == ""
}

// Lookup is [Scope.Lookup] with the cached match. f may be nil.
func (f *LookupCache) Lookup(s *Snapshot, scope Scope, name, domain string) (names.Answer, bool) {
	if f == nil || f.own == nil || f.snapshot != s || f.own != scope.Own || f.name != name {
		return scope.Lookup(name, domain)
	}
	return f.match.Answer(), true
}
