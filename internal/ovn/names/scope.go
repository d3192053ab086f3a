// SPDX-License-Identifier: Apache-2.0

package names

import "net/netip"

// Scope is the networks whose names an asker sees: the one that he is on, and those
// joined to it. Its methods neither lock nor allocate, but for what Directory.Lookup
// does. Those of the zero Scope must not be called.
type Scope struct {
	own    *Directory
	joined *Union // own among them; nil for own alone
}

// NewScope returns the scope of an asker: his own network and those joined, own
// among them or nil.
func NewScope(own *Directory, joined *Union) Scope { return Scope{own, joined} }

// Lookup asks the networks one after the other, as Directory.Lookup does: the asker's
// own first, then the others in their order. The first that knows the name answers,
// as a whole.
func (s Scope) Lookup(name, domain string) (Answer, bool) {
	a, ok := s.own.Lookup(name, domain)
	if !ok && s.joined != nil {
		return s.joined.lookup(name, domain, s.own)
	}
	return a, ok
}

// Empty reports whether any of the networks does, see Directory.Empty.
func (s Scope) Empty(name, domain string) bool {
	return s.own.Empty(name, domain) || s.joined != nil && s.joined.empty(name, domain)
}

// HasMachine reports whether any of the networks does, see Directory.HasMachine.
func (s Scope) HasMachine(a netip.Addr) bool {
	return s.own.HasMachine(a) || s.joined != nil && s.joined.hasMachine(a)
}

// Union returns the networks joined, nil for own alone.
func (s Scope) Union() *Union { return s.joined }
