// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"strings"

	"github.com/miekg/dns"
)

// parent is a canonical name without its first label, "." for one label.
func parent(name string) string {
	i, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[i:]
}

// tree counts, for each name, the names below it: one that has some exists,
// though it may have no records itself (RFC 8020, section 2).
type tree map[string]int32

// add counts a name, or with -1 takes it back.
func (t tree) add(name string, n int32) {
	for a := parent(name); a != "."; a = parent(a) {
		if t[a] += n; t[a] == 0 {
			delete(t, a)
		}
	}
}

func newTree(names map[string]*entry) tree {
	t := make(tree)
	for name := range names {
		t.add(name, 1)
	}
	return t
}

// isWildcard tells whether the first label of a canonical name is an asterisk
// (RFC 4592, section 2.1.1).
func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// noData stands for a wildcard that exists for the names below it only.
var noData = &entry{}

// exists tells whether a canonical name has a record or names below it.
func (t *table) exists(name string) bool { return t.below[name] > 0 || t.find(name) != nil }

// grow brings the tree and the wildcards up to date for a name that had a record
// or not, and now has or has not.
func (t *table) grow(name string, had, has bool) {
	switch {
	case had && !has:
		t.below.add(name, -1)
	case has && !had:
		if t.below == nil {
			t.below = make(tree)
		}
		t.below.add(name, 1)
	}
	for a := name; a != "."; a = parent(a) {
		if !isWildcard(a) {
			continue
		}
		encloser := parent(a)
		e := t.find(a)
		if e == nil && t.below[a] > 0 {
			e = noData
		}
		if e == nil {
			delete(t.wild, encloser)
			continue
		}
		if t.wild == nil {
			t.wild = make(map[string]*entry)
		}
		t.wild[encloser] = e
	}
}

// exists tells whether the name is that of a port or has such names below it.
func (p *ports) exists(name, domain string) bool {
	if p.names[name] != nil || p.below[name] > 0 {
		return true
	}
	if domain == "" || len(p.plain) == 0 {
		return false
	}
	if name == domain || strings.HasSuffix(domain, "."+name) {
		return true
	}
	bare, ok := strings.CutSuffix(name, domain)
	return ok && (p.plain[bare] != nil || p.plainBelow[bare] > 0)
}

// exists tells whether the name has records or names below it, those that PTR
// records are derived for left aside.
func (n *Network) exists(name, domain string) bool {
	for _, row := range n.rows {
		if row.exists(name) {
			return true
		}
	}
	return n.ports.exists(name, domain)
}

// encloser is the closest encloser of a name that does not exist: its longest
// ancestor that does (RFC 4592, section 3.3.1).
func (n *Network) encloser(name, domain string) string {
	for name != "." {
		if name = parent(name); n.exists(name, domain) {
			break
		}
	}
	return name
}

// synthesize answers a name that has no record from the wildcard below its
// closest encloser.
func (n *Network) synthesize(name, domain string) (Answer, bool) {
	if !n.wild || n.exists(name, domain) {
		return Answer{}, false
	}
	encloser := n.encloser(name, domain)
	for _, row := range n.rows {
		if e := row.wild[encloser]; e != nil && e.usable() {
			return e.answer(FromDNS, row.owned), true
		}
	}
	return Answer{}, false
}

// Empty reports whether a name that Lookup does not find exists nevertheless, as
// an empty non-terminal: there are names below it. To deny it would deny those
// too (RFC 8020, section 2). The arguments are those of Lookup.
func (n *Network) Empty(name, domain string) bool {
	if n.exists(name, domain) {
		return true
	}
	if p, ok := parseReversePrefix(name); ok && !p.IsSingleIP() && n.hasWithin(p) {
		return true
	}
	if name == "arpa." {
		return n.hasWithin(allIPv4) || n.hasWithin(allIPv6)
	}
	if !n.wild {
		return false
	}
	encloser := n.encloser(name, domain)
	for _, row := range n.rows {
		if row.wild[encloser] != nil {
			return true
		}
	}
	return false
}
