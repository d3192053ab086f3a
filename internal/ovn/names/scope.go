// SPDX-License-Identifier: Apache-2.0

package names

import "net/netip"

// Scope is a guest's own network and the networks joined to it. The zero Scope is unusable.
type Scope struct {
	own    *Directory
	joined *Union // includes own; nil for own alone
}

func NewScope(own *Directory, joined *Union) Scope { return Scope{own, joined} }

// Lookup is Directory.Lookup in the guest's own network, then in the others by ID. The first network that
// knows the name answers.
func (s Scope) Lookup(name, domain string) (Answer, bool) {
	a, ok := s.own.Lookup(name, domain)
	if !ok && s.joined != nil {
		return s.joined.lookup(name, domain, s.own)
	}
	return a, ok
}

func (s Scope) Empty(name, domain string) bool {
	return s.own.Empty(name, domain) || s.joined != nil && s.joined.empty(name, domain)
}

func (s Scope) HasMachine(a netip.Addr) bool {
	return s.own.HasMachine(a) || s.joined != nil && s.joined.hasMachine(a)
}

func (s Scope) Union() *Union { return s.joined }
