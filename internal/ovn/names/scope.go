// SPDX-License-Identifier: Apache-2.0

package names

// Scope is the networks whose names an asker sees: the one that he is on, and those
// joined to it. Its methods neither lock nor allocate, but for what Directory.Lookup
// does. Those of the zero Scope must not be called.
type Scope struct {
	own *Directory
	// joined are in the order in which they are asked, own among them; nil for own
	// alone.
	joined []*Directory
}

// NewScope returns the scope of an asker: his own network and those joined, own
// among them or nil.
func NewScope(own *Directory, joined []*Directory) Scope { return Scope{own, joined} }

// Lookup asks the networks one after the other, as Directory.Lookup does: the asker's
// own first, then the others in their order. The first that knows the name answers,
// as a whole.
func (s Scope) Lookup(name, domain string) (Answer, bool) {
	a, ok := s.own.Lookup(name, domain)
	for i := 0; !ok && i < len(s.joined); i++ {
		if s.joined[i] != s.own {
			a, ok = s.joined[i].Lookup(name, domain)
		}
	}
	return a, ok
}

// Empty reports whether any of the networks does, see Directory.Empty.
func (s Scope) Empty(name, domain string) bool {
	empty := s.own.Empty(name, domain)
	for i := 0; !empty && i < len(s.joined); i++ {
		empty = s.joined[i] != s.own && s.joined[i].Empty(name, domain)
	}
	return empty
}
