// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// A query of three members in order takes no longer than the index.
const minIndexed = 4

type member[M any] interface {
	comparable
	version
	// compare calls the add methods of d for all names and addresses whose terms may differ in old.
	compare(old M, d *difference)
}

// index finds members by their terms, in ID order, perhaps one too many. It is immutable.
type index[M member[M]] struct {
	// chunks have the members by number, which all versions of a member share. free are unused numbers.
	chunks                                  []*chunk[M]
	free                                    []uint32
	count                                   int
	terms, wild, subnets4, subnets6, hosts6 postings
}

type numbered[M any] struct {
	id [16]byte
	// has is an array, so that first returns a slice of it without a copy.
	has [1]M
}

const chunkSize = 64

// chunk bounds the copy for a change of one member.
type chunk[M any] [chunkSize]numbered[M]

func (x *index[M]) at(n uint32) *numbered[M] { return &x.chunks[n/chunkSize][n%chunkSize] }

func (x *index[M]) get(n uint32) M { return x.at(n).has[0] }

func (x *index[M]) order(a, b uint32) int {
	if a == b {
		return 0
	}
	return cmp.Or(bytes.Compare(x.at(a).id[:], x.at(b).id[:]), cmp.Compare(a, b))
}

func (x *index[M]) all() iter.Seq2[[16]byte, M] {
	return func(yield func([16]byte, M) bool) {
		var free M
		for _, c := range x.chunks {
			for i := range c {
				if c[i].has[0] != free && !yield(c[i].id, c[i].has[0]) {
					return
				}
			}
		}
	}
}

func (x *index[M]) number(id [16]byte, accept func(M) bool) (uint32, bool) {
	for c := x.terms.find(nameTerm(kindIdentity, string(id[:]))); c.valid(); c.next(x.order) {
		if n := c.member(); x.at(n).id == id && accept(x.get(n)) {
			return n, true
		}
	}
	return 0, false
}

func (x *index[M]) find(k kind, name string) cursor {
	if k.isWild() {
		return x.wild.find(nameTerm(k, name))
	}
	return x.terms.find(nameTerm(k, name))
}

func (x *index[M]) first(k kind, name string) []M {
	for c := x.find(k, name); c.valid(); c.next(x.order) {
		if n := x.at(c.member()); n.has[0].hasName(k, name) {
			return n.has[:]
		}
	}
	return nil
}

func (x *index[M]) each(term uint64, yield func(M) bool) {
	for c := x.terms.find(term); c.valid(); c.next(x.order) {
		if !yield(x.get(c.member())) {
			return
		}
	}
}

func (x *index[M]) derivesWithin(p netip.Prefix) bool {
	set := x.subnets6
	first, last := subnetTerms(p)
	switch {
	case p.Addr().Is4():
		set = x.subnets4
	case p.Bits() > subnetBits(p.Addr()):
		set = x.hosts6
		first, last = hostTerms(p)
	}
	for c := set.find(first); c.leaf != nil && c.leaf.terms[c.i] <= last; {
		c.term = c.leaf.terms[c.i]
		if x.get(c.member()).derivesWithin(p) {
			return true
		}
		c.next(x.order)
	}
	return false
}

// maxEdits bounds the peak memory of a first index.
const maxEdits = 1 << 15

type indexEditor[M member[M]] struct {
	next    index[M]
	none    M // the missing version of a new or removed member
	copied  map[int]bool
	removed []uint32
	edits
}

type edits struct{ terms, wild, subnets4, subnets6, hosts6 []edit }

func (x *index[M]) edit(none M) *indexEditor[M] {
	e := &indexEditor[M]{next: *x, none: none, copied: make(map[int]bool)}
	e.next.chunks, e.next.free = slices.Clone(x.chunks), slices.Clone(x.free)
	return e
}

func (e *indexEditor[M]) add(id [16]byte, m M) {
	n := e.newNumber()
	e.next.count++
	*e.writable(n) = numbered[M]{id, [1]M{m}}
	e.terms = append(e.terms, edit{identity(id, n), true})
	e.compare(n, e.none, m)
}

func (e *indexEditor[M]) replace(n uint32, m M) {
	at := e.writable(n)
	old := at.has[0]
	at.has[0] = m
	e.compare(n, old, m)
}

func (e *indexEditor[M]) remove(n uint32) {
	old := e.next.at(n)
	e.next.count--
	e.removed = append(e.removed, n)
	e.terms = append(e.terms, edit{identity(old.id, n), false})
	e.compare(n, old.has[0], e.none)
}

func identity(id [16]byte, n uint32) posting {
	return posting{nameTerm(kindIdentity, string(id[:])), n}
}

func (e *indexEditor[M]) compare(n uint32, old, next M) {
	d := difference{member: n, old: old, next: next, edits: &e.edits, done: make(map[nameOfKind]struct{})}
	next.compare(old, &d)
	if len(e.terms)+len(e.wild)+len(e.subnets4)+len(e.subnets6)+len(e.hosts6) > maxEdits {
		e.flush()
	}
}

func (e *indexEditor[M]) flush() {
	apply := func(to *postings, edits *[]edit) {
		*to = to.apply(*edits, e.next.order)
		*edits = (*edits)[:0]
	}
	apply(&e.next.terms, &e.terms)
	apply(&e.next.wild, &e.wild)
	apply(&e.next.subnets4, &e.subnets4)
	apply(&e.next.subnets6, &e.subnets6)
	apply(&e.next.hosts6, &e.hosts6)
}

func (e *indexEditor[M]) done() index[M] {
	e.flush()
	// Until the next edit the order of the removed postings must not change.
	for _, n := range e.removed {
		*e.writable(n) = numbered[M]{}
	}
	e.next.free = append(e.next.free, e.removed...)
	return e.next
}

func (e *indexEditor[M]) newNumber() uint32 {
	if last := len(e.next.free) - 1; last >= 0 {
		n := e.next.free[last]
		e.next.free = e.next.free[:last]
		return n
	}
	at := len(e.next.chunks)
	e.copied[at] = true
	e.next.chunks = append(e.next.chunks, new(chunk[M]))
	first := uint32(at * chunkSize)
	for n := first + chunkSize - 1; n > first; n-- {
		e.next.free = append(e.next.free, n)
	}
	return first
}

func (e *indexEditor[M]) writable(n uint32) *numbered[M] {
	if i := int(n) / chunkSize; !e.copied[i] {
		e.copied[i] = true
		c := *e.next.chunks[i]
		e.next.chunks[i] = &c
	}
	return e.next.at(n)
}
