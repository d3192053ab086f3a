// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"iter"
	"net/netip"
	"slices"
)

type dnsRow[R any] interface {
	member[R]
	id() [16]byte
	hasWildcards() bool
}

// rows are the tables of a network's DNS rows, in UUID order. They are immutable.
type rows[R dnsRow[R]] struct {
	all []R
	// index is nil for fewer than minIndexed rows.
	index *index[R]
}

func (r *rows[R]) with(all []R, none R) rows[R] {
	if len(all) < minIndexed {
		return rows[R]{all: all}
	}
	if slices.Equal(r.all, all) {
		return *r
	}
	old, base := r.all, r.index
	if base == nil {
		old, base = nil, new(index[R])
	}
	e := base.edit(none)
	for was, is := range changedRows(old, all, none) {
		if was == none {
			e.add(is.id(), is)
			continue
		}
		n, _ := base.number(was.id(), func(r R) bool { return r == was })
		if is == none {
			e.remove(n)
		} else {
			e.replace(n, is)
		}
	}
	x := e.done()
	return rows[R]{all, &x}
}

func changedRows[R dnsRow[R]](old, next []R, none R) iter.Seq2[R, R] {
	return func(yield func(was, is R) bool) {
		for len(old) > 0 || len(next) > 0 {
			was, is := none, none
			switch order := compareFirst(old, next); {
			case order < 0:
				was, old = old[0], old[1:]
			case order > 0:
				is, next = next[0], next[1:]
			default:
				was, is, old, next = old[0], next[0], old[1:], next[1:]
			}
			if was != is && !yield(was, is) {
				return
			}
		}
	}
}

func compareFirst[R dnsRow[R]](a, b []R) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	case a[0] == b[0]:
		return 0
	}
	x, y := a[0].id(), b[0].id()
	return bytes.Compare(x[:], y[:])
}

// of returns all of few rows, otherwise the first row with the name.
func (r *rows[R]) of(k kind, name string) []R {
	if r.index == nil {
		return r.all
	}
	return r.index.first(k, name)
}

func (r *rows[R]) has(k kind, name string) bool {
	for _, row := range r.of(k, name) {
		if row.hasName(k, name) {
			return true
		}
	}
	return false
}

func (r *rows[R]) allOf(name string) iter.Seq[R] {
	return func(yield func(R) bool) {
		if r.index != nil {
			r.index.each(nameTerm(kindExact, name), yield)
			return
		}
		slices.Values(r.all)(yield)
	}
}

// withAddress yields all of few rows, otherwise the rows with a name of the address.
func (r *rows[R]) withAddress(a netip.Addr) iter.Seq[R] {
	return func(yield func(R) bool) {
		if r.index != nil {
			r.index.each(addressTerm(kindPointer, a), yield)
			return
		}
		slices.Values(r.all)(yield)
	}
}

func (r *rows[R]) derivesWithin(p netip.Prefix) bool {
	if r.index != nil {
		return r.index.derivesWithin(p)
	}
	for _, row := range r.all {
		if row.derivesWithin(p) {
			return true
		}
	}
	return false
}

func (r *rows[R]) hasWildcards() bool {
	if r.index == nil {
		return slices.ContainsFunc(r.all, R.hasWildcards)
	}
	return r.index.wild.root != nil
}
