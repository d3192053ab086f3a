// SPDX-License-Identifier: Apache-2.0

package names

import (
	"maps"
	"strings"
)

// noData stands for a wildcard that exists only since there are names below it.
var noData = &entry{}

// isWildcard reports whether the first label of a canonical name is an asterisk
// (RFC 4592, section 2.1.1).
func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// wildcards is the wildcards of one row, with what each has. The zero value has none.
type wildcards[E any] struct {
	// at has the wildcards by the name that they stand directly below.
	at map[string]E
	// below counts, by name, the wildcards below it.
	below descendants
}

// update brings the wildcards up to date for a name whose records or descendants have changed: the
// name itself and its ancestors may be wildcards. of returns what a wildcard has, and reports whether
// there is such a wildcard.
func (w *wildcards[E]) update(name string, of func(wildcard string) (has E, exists bool)) {
	for a := name; a != "."; a = parent(a) {
		if !isWildcard(a) {
			continue
		}
		if has, exists := of(a); exists {
			w.set(a, has)
		} else {
			w.remove(a)
		}
	}
}

// set sets what a wildcard has, by its canonical name.
func (w *wildcards[E]) set(wildcard string, has E) {
	if w.at == nil {
		w.at, w.below = make(map[string]E), make(descendants)
	}
	encloser := parent(wildcard)
	if _, had := w.at[encloser]; !had {
		w.below.add(wildcard, 1)
	}
	w.at[encloser] = has
}

// remove removes a wildcard, which may be absent.
func (w *wildcards[E]) remove(wildcard string) {
	encloser := parent(wildcard)
	if _, had := w.at[encloser]; had {
		delete(w.at, encloser)
		w.below.add(wildcard, -1)
	}
}

func (w *wildcards[E]) clone() wildcards[E] {
	return wildcards[E]{maps.Clone(w.at), maps.Clone(w.below)}
}

// updateWildcards updates wild for a name whose record or descendants have changed.
func (t *Table) updateWildcards(name string) {
	t.wild.update(name, func(wildcard string) (has *entry, exists bool) {
		if e := t.find(wildcard); e != nil {
			return e, true
		}
		return noData, t.below[wildcard] > 0
	})
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
		if e := t.wild.at[encloser]; e != nil && e.usable() {
			return e.answer(sourceDNS, t.owned), true
		}
	}
	return Answer{}, false
}

// isAboveWildcard reports whether a row has a wildcard below a name.
func (d *Directory) isAboveWildcard(name string) bool {
	for _, t := range d.tables {
		if t.wild.below[name] > 0 {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.wild.below[name] > 0 {
			return true
		}
	}
	return false
}

// hasWildcard reports whether a wildcard stands below the closest encloser of a name
// that does not exist, with data or without.
func (d *Directory) hasWildcard(name, domain string) bool {
	if !d.wild {
		return false
	}
	encloser := d.closestEncloser(name, domain)
	for _, t := range d.tables {
		if t.wild.at[encloser] != nil {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.wild.at[encloser] != nil {
			return true
		}
	}
	return false
}
