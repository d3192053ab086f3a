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

// tree has names with values. It is immutable; the zero tree has no names.
type tree[V any] struct {
	// items are in canonical order (compareNames), so the names below a name follow it.
	items []item[V]
	// slots is a hash table with linear probing, half of it free. It has each name that exists: the names of
	// items and their ancestors, which may be empty non-terminals (RFC 8020, section 2). A slot has 1 plus the
	// number of the item with the name, or of an item below it; 0 is free.
	slots []uint32
	// wildcards are the existing names whose first label is an asterisk, in the order of their parents.
	wildcards []string
}

type item[V any] struct {
	// name is canonical. It is an array, so that a reverse lookup returns a slice of it without a copy.
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

// probe returns the number of the item with a canonical name, or of an item below it. ok is false if the name
// does not exist.
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

// isWildcard follows RFC 4592, section 2.1.1.
func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

func mayHaveWildcard(name string) bool { return isWildcard(name) || strings.Contains(name, ".*.") }

// wildcard returns the wildcard directly below a canonical name, "" if none exists. It has a value (find), or
// is an empty non-terminal.
func (t *tree[V]) wildcard(encloser string) string {
	if i := t.wildcardFrom(encloser); i < len(t.wildcards) && parent(t.wildcards[i]) == encloser {
		return t.wildcards[i]
	}
	return ""
}

func (t *tree[V]) hasEmptyWildcard(encloser string) bool {
	wildcard := t.wildcard(encloser)
	return wildcard != "" && t.find(wildcard) == nil
}

func (t *tree[V]) isAboveWildcard(name string) bool {
	i := t.wildcardFrom(name)
	return i < len(t.wildcards) && Under(parent(t.wildcards[i]), name)
}

// wildcardFrom returns the number of the first wildcard whose parent is not before a name.
func (t *tree[V]) wildcardFrom(name string) int {
	return sort.Search(len(t.wildcards), func(i int) bool { return compareNames(parent(t.wildcards[i]), name) >= 0 })
}

// parent returns a canonical name without its first label, "." for a single label.
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

// changed is the move of an item that is changed or removed.
const changed = ^uint32(0)

// edit returns the tree after changes, which are in canonical order, one per name. A removed name must exist.
// moves[i] is the new number of item i, or changed. The time is proportional to the tree; without new or
// removed names, edit only copies.
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
			name = t.items[len(moves)].name // versions share the string
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

// place is the number of an item, or of the item before which a new item is inserted.
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

// nodes yields each name that exists, with the first item at or below it.
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
