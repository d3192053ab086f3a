// SPDX-License-Identifier: Apache-2.0

package names

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/miekg/dns"
)

// tree maps names to values. It is immutable; the zero tree is empty.
type tree[V any] struct {
	// items are in canonical order, so the names below a name follow it.
	items []item[V]
	// slots is a hash table with linear probing, half of it free, of all items and their ancestors. A slot is
	// 1 plus the number of the item with the name, or of an item below it; 0 is free.
	slots []uint32
	// wildcards are the existing names that begin with an asterisk label, in the order of their parents.
	wildcards []string
}

type item[V any] struct {
	// name is an array, so that a reverse lookup returns a slice of it without a copy.
	name [1]string
	has  V
}

func (t *tree[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for i := range t.items {
			if !yield(t.items[i].name[0], &t.items[i].has) {
				return
			}
		}
	}
}

func (t *tree[V]) find(name string) *V {
	if i, ok := t.number(name); ok {
		return &t.items[i].has
	}
	return nil
}

func (t *tree[V]) exists(name string) bool {
	_, ok := t.probe(name)
	return ok
}

func (t *tree[V]) number(name string) (uint32, bool) {
	i, ok := t.probe(name)
	return i, ok && t.items[i].name[0] == name
}

func (t *tree[V]) probe(name string) (uint32, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	for at := t.home(name); ; {
		slot := t.slots[at]
		if slot == 0 {
			return 0, false
		}
		if Under(t.items[slot-1].name[0], name) {
			return slot - 1, true
		}
		at = t.after(at)
	}
}

// treeSeed is random, so that tenants can't choose names that share a slot.
var treeSeed = maphash.MakeSeed()

func (t *tree[V]) home(name string) int {
	high, _ := bits.Mul64(maphash.String(treeSeed, name), uint64(len(t.slots)))
	return int(high)
}

func (t *tree[V]) after(at int) int {
	if at++; at == len(t.slots) {
		return 0
	}
	return at
}

func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

func mayHaveWildcard(name string) bool { return isWildcard(name) || strings.Contains(name, ".*.") }

// wildcard returns the wildcard directly below encloser, perhaps an empty non-terminal, or "".
func (t *tree[V]) wildcard(encloser string) string {
	if i := t.wildcardFrom(encloser); i < len(t.wildcards) && parent(t.wildcards[i]) == encloser {
		return t.wildcards[i]
	}
	return ""
}

func (t *tree[V]) isAboveWildcard(name string) bool {
	i := t.wildcardFrom(name)
	return i < len(t.wildcards) && Under(parent(t.wildcards[i]), name)
}

func (t *tree[V]) hasNode(k kind, name string) bool {
	switch k {
	case kindNode:
		return t.exists(name)
	case kindWildcard:
		return t.find(t.wildcard(name)) != nil
	case kindAnyWildcard:
		return t.wildcard(name) != ""
	case kindAboveWildcard:
		return t.isAboveWildcard(name)
	}
	return false
}

func (t *tree[V]) wildcardFrom(name string) int {
	return sort.Search(len(t.wildcards), func(i int) bool { return compareNames(parent(t.wildcards[i]), name) >= 0 })
}

func parent(name string) string {
	i, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[i:]
}

type change[V any] struct {
	name string
	has  V
	gone bool
}

const changed = ^uint32(0)

// edit applies changes, in canonical order, one per name. A removed name must exist. moves has the new number
// of each item. Without new or removed names, edit only copies.
func (t *tree[V]) edit(changes []change[V]) (next tree[V], moves []uint32) {
	if len(changes) == 0 {
		return *t, nil
	}
	places := t.places(changes)
	size, renamed, wild := len(t.items), false, len(t.wildcards) > 0
	for k, c := range changes {
		switch {
		case c.gone:
			size--
		case places[k].isNew:
			size++
		default:
			continue
		}
		renamed, wild = true, wild || mayHaveWildcard(c.name)
	}
	next.items, moves = make([]item[V], 0, size), make([]uint32, 0, len(t.items))
	keep := func(end int) {
		first := len(moves)
		for i := range end - first {
			moves = append(moves, uint32(len(next.items)+i))
		}
		next.items = append(next.items, t.items[first:end]...)
	}
	for k, c := range changes {
		keep(places[k].at)
		name := [1]string{c.name}
		if !places[k].isNew {
			name = t.items[len(moves)].name
			moves = append(moves, changed)
		}
		if !c.gone {
			next.items = append(next.items, item[V]{name, c.has})
		}
	}
	keep(len(t.items))
	if !renamed {
		next.slots, next.wildcards = t.slots, t.wildcards
		return next, moves
	}
	next.index()
	if wild {
		next.findWildcards()
	}
	return next, moves
}

type place struct {
	at    int
	isNew bool
}

func (t *tree[V]) places(changes []change[V]) []place {
	all := make([]place, len(changes))
	from := 0
	for k, c := range changes {
		i, found := t.number(c.name)
		at := int(i)
		if !found {
			at = from + sort.Search(len(t.items)-from, func(i int) bool { return compareNames(t.items[from+i].name[0], c.name) > 0 })
		}
		all[k] = place{at, !found}
		from = at
	}
	return all
}

func (t *tree[V]) index() {
	count := 0
	for range t.nodes() {
		count++
	}
	t.slots = make([]uint32, 2*count)
	for i, name := range t.nodes() {
		at := t.home(name)
		for t.slots[at] != 0 {
			at = t.after(at)
		}
		t.slots[at] = uint32(i + 1)
	}
}

func (t *tree[V]) nodes() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		last := ""
		for i := range t.items {
			name := t.items[i].name[0]
			for a := name; a != "." && !Under(last, a); a = parent(a) {
				if !yield(i, a) {
					return
				}
			}
			last = name
		}
	}
}

func (t *tree[V]) findWildcards() {
	for _, name := range t.nodes() {
		if isWildcard(name) {
			t.wildcards = append(t.wildcards, name)
		}
	}
	slices.SortFunc(t.wildcards, func(a, b string) int { return compareNames(parent(a), parent(b)) })
}
