// SPDX-License-Identifier: Apache-2.0

package names

import "strings"

// noData stands for a wildcard that exists only since there are names below it.
var noData = &entry{}

// isWildcard reports whether the first label of a canonical name is an asterisk
// (RFC 4592, section 2.1.1).
func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// updateWildcards updates wild for a name whose record or descendants have changed:
// the name itself and its ancestors may be wildcards.
func (t *Table) updateWildcards(name string) {
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

// closestEncloser returns the longest ancestor of a name that exists (RFC 4592,
// section 3.3.1), for a name that does not.
func (d *Directory) closestEncloser(name, domain string) string {
	for name != "." {
		if name = parent(name); d.exists(name, domain) {
			break
		}
	}
	return name
}

// synthesize answers a name that does not exist from the wildcard below its closest
// encloser (RFC 4592, section 3.3.3).
func (d *Directory) synthesize(name, domain string) (Answer, bool) {
	if !d.wild || d.exists(name, domain) {
		return Answer{}, false
	}
	return d.wildcard(d.closestEncloser(name, domain))
}

// wildcard answers from the wildcard directly below a name.
func (d *Directory) wildcard(encloser string) (Answer, bool) {
	for _, t := range d.tables {
		if e := t.wild[encloser]; e != nil && e.usable() {
			return e.answer(sourceDNS, t.owned), true
		}
	}
	return Answer{}, false
}

// hasWildcard reports whether a wildcard stands below the closest encloser of a name
// that does not exist, with data or without.
func (d *Directory) hasWildcard(name, domain string) bool {
	if !d.wild {
		return false
	}
	encloser := d.closestEncloser(name, domain)
	for _, t := range d.tables {
		if t.wild[encloser] != nil {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.wild[encloser] != nil {
			return true
		}
	}
	return false
}
