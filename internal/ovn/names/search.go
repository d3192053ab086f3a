// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"

	"github.com/miekg/dns"
)

type search struct {
	in           *Union
	own          *Directory
	name, domain string
	answer       Answer
	best         uint32
	found        bool
}

func (j *Union) lookup(name, domain string, own *Directory) (Answer, bool) {
	for i := range j.unindexed {
		if d := j.unindexed[i].directory; d != own {
			if a, ok := d.Lookup(name, domain); ok {
				return a, true
			}
		}
	}
	if j.count == 0 {
		return Answer{}, false
	}
	s := search{in: j, own: own, name: name, domain: domain}
	s.consider(nameTerm(kindExact, name))
	if bare, ok := cutDomain(name, domain); ok {
		s.consider(nameTerm(kindBare, bare))
	}
	if a, ok := parseReverse(name); ok {
		s.consider(addressTerm(kindPointer, a))
		s.consider(addressTerm(kindBarePointer, a))
	}
	j.walkWildcards(name, s.considerWildcard)
	return s.answer, s.found
}

func cutDomain(name, domain string) (bare string, ok bool) {
	if domain == "" {
		return "", false
	}
	return strings.CutSuffix(name, domain)
}

func (s *search) consider(term uint64) {
	for c := s.in.terms.find(term); c.valid(); c.next(s.in.order) {
		if s.ask(c.member()) {
			return
		}
	}
}

// Where below exists, encloser is not the closest encloser.
func (s *search) considerWildcard(encloser, below string) (done bool) {
	c := s.in.wild.find(nameTerm(kindWildcard, encloser))
	if !c.valid() {
		return false
	}
	for next := s.in.terms.find(nameTerm(kindNode, below)); c.valid(); c.next(s.in.order) {
		s.in.skip(&c, &next)
		if !c.valid() || s.ask(c.member()) {
			break
		}
	}
	return false // an earlier network may have another wildcard
}

// done reports whether later networks need no query.
func (s *search) ask(n uint32) (done bool) {
	if s.found && s.in.order(n, s.best) >= 0 {
		return true
	}
	d := s.in.get(n)
	if d == s.own {
		return false
	}
	a, ok := d.Lookup(s.name, s.domain)
	if ok {
		s.answer, s.best, s.found = a, n, true
	}
	return ok
}

func (j *Union) skip(c, others *cursor) {
	for c.valid() && others.valid() {
		switch order := j.order(c.member(), others.member()); {
		case order < 0:
			return
		case order > 0:
			others.advance(c.member(), j.order)
		default:
			c.next(j.order)
			others.next(j.order)
		}
	}
}

const maxLabels = 127

// walkWildcards visits the ancestors of a name, down from the root, while any network has wildcards below
// them.
func (j *Union) walkWildcards(name string, visit func(encloser, below string) (done bool)) {
	if j.wild.root == nil {
		return
	}
	var labels [maxLabels]int
	count := 0
	for at, end := 0, false; !end && count < maxLabels; count++ {
		labels[count] = at
		at, end = dns.NextLabel(name, at)
	}
	for encloser := "."; count > 0; count-- {
		below := name[labels[count-1]:]
		if visit(encloser, below) {
			return
		}
		if c := j.wild.find(nameTerm(kindAboveWildcard, below)); !c.valid() {
			return
		}
		encloser = below
	}
}

func (j *Union) empty(name, domain string) bool {
	for i := range j.unindexed {
		if j.unindexed[i].directory.Empty(name, domain) {
			return true
		}
	}
	if j.count == 0 {
		return false
	}
	if j.anyEmpty(name, domain, j.terms.find(nameTerm(kindNode, name))) {
		return true
	}
	if bare, ok := cutDomain(name, domain); ok && j.anyEmpty(name, domain, j.terms.find(nameTerm(kindBareNode, bare))) {
		return true
	}
	if Under(domain, name) && j.anyEmpty(name, domain, j.terms.find(nameTerm(kindAnyBare, ""))) {
		return true
	}
	return j.emptyReverse(name) || j.emptyByWildcard(name, domain)
}

func (j *Union) emptyByWildcard(name, domain string) (empty bool) {
	j.walkWildcards(name, func(encloser, below string) bool {
		c := j.wild.find(nameTerm(kindAnyWildcard, encloser))
		if !c.valid() {
			return false
		}
		for others := j.terms.find(nameTerm(kindNode, below)); c.valid() && !empty; c.next(j.order) {
			if j.skip(&c, &others); !c.valid() {
				break
			}
			empty = j.get(c.member()).Empty(name, domain)
		}
		return empty
	})
	return empty
}

func (j *Union) anyEmpty(name, domain string, c cursor) bool {
	for ; c.valid(); c.next(j.order) {
		if j.get(c.member()).Empty(name, domain) {
			return true
		}
	}
	return false
}

func (j *Union) emptyReverse(name string) bool {
	if name == "arpa." {
		return j.subnets4.root != nil || j.subnets6.root != nil
	}
	p, ok := parseReversePrefix(name)
	return ok && !p.IsSingleIP() && j.derivesWithin(p)
}
