// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// addressTree is an immutable tree that also finds the names of an address.
type addressTree struct {
	tree[entry]
	pointers []pointer
}

type pointer struct{ item, address uint32 }

type addressName struct {
	address netip.Addr
	name    string
}

// Single labels come after longer names.
func compareAddressNames(a, b addressName) int {
	if c := a.address.Compare(b.address); c != 0 {
		return c
	}
	switch sa, sb := isSingleLabel(a.name), isSingleLabel(b.name); {
	case sa && !sb:
		return 1
	case sb && !sa:
		return -1
	}
	return cmp.Compare(a.name, b.name)
}

func isSingleLabel(name string) bool { return strings.IndexByte(name, '.') == len(name)-1 }

func appendPairs(pairs []addressName, name string, addresses []netip.Addr) []addressName {
	for _, a := range addresses {
		pairs = append(pairs, addressName{a, name})
	}
	return pairs
}

// more has the addresses of the changed names; edit sorts it.
func (t *addressTree) edit(changes []change[entry], more []addressName) addressTree {
	if len(changes) == 0 {
		return *t
	}
	next, moves := t.tree.edit(changes)
	slices.SortFunc(more, compareAddressNames)
	more = slices.Compact(more)
	size := len(more)
	for _, p := range t.pointers {
		if moves[p.item] != changed {
			size++
		}
	}
	all := make([]pointer, 0, size)
	from := 0
	keep := func(end int) {
		for _, p := range t.pointers[from:end] {
			if to := moves[p.item]; to != changed {
				all = append(all, pointer{to, p.address})
			}
		}
		from = end
	}
	for _, pair := range more {
		keep(from + sort.Search(len(t.pointers)-from, func(i int) bool { return compareAddressNames(t.pair(from+i), pair) > 0 }))
		item, _ := next.number(pair.name)
		all = append(all, pointer{item, uint32(slices.Index(next.items[item].has.addresses(), pair.address))})
	}
	keep(len(t.pointers))
	return addressTree{next, all}
}

func (t *addressTree) pair(i int) addressName {
	p := t.pointers[i]
	of := &t.items[p.item]
	return addressName{of.has.addresses()[p.address], of.name[0]}
}

func (t *addressTree) from(address netip.Addr) int {
	return sort.Search(len(t.pointers), func(i int) bool { return t.pair(i).address.Compare(address) >= 0 })
}

// namesOf returns the longer names of an address, or else its single labels. A single name is a shared slice.
func (t *addressTree) namesOf(address netip.Addr) []string {
	first := t.from(address)
	end := first
	for ; end < len(t.pointers); end++ {
		p := t.pair(end)
		if p.address != address || end > first && isSingleLabel(p.name) && !isSingleLabel(t.pair(first).name) {
			break
		}
	}
	switch end - first {
	case 0:
		return nil
	case 1:
		return t.items[t.pointers[first].item].name[:]
	}
	all := make([]string, 0, end-first)
	for i := first; i < end; i++ {
		all = append(all, t.pair(i).name)
	}
	return all
}

func (t *addressTree) hasWithin(p netip.Prefix) bool {
	i := t.from(p.Addr())
	return i < len(t.pointers) && p.Contains(t.pair(i).address)
}
