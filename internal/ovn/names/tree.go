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

// tree is names with what each of them has. A finished tree is immutable; the zero tree has no
// names.
type tree[V any] struct {
	// items are in canonical order (compareNames), so the names below a name follow it.
	items []item[V]
	// slots is a hash table with linear probing. It has a slot for each name that exists: for the
	// names of items, and for the names above them, which may be empty non-terminals (RFC 8020,
	// section 2). A slot has 1 more than the number of the item with the name, or of an item below
	// the name; 0 is a free slot. Half of the slots are free.
	slots []uint32
	// wildcards are the names that exist and begin with an asterisk label, in the order of their
	// parents.
	wildcards []string
}

// item is one name.
type item[V any] struct {
	// name is canonical. It is an array so that a reverse lookup can return the name as a slice
	// without a copy.
	name [1]string
	has  V
}

// all yields the names in canonical order, with what they have.
func (t *tree[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for i := range t.items {
			if !yield(t.items[i].name[0], &t.items[i].has) {
				return
			}
		}
	}
}

// find returns what a canonical name has, nil if the tree has no such name.
func (t *tree[V]) find(name string) *V {
	if i, ok := t.number(name); ok {
		return &t.items[i].has
	}
	return nil
}

// exists reports whether the tree has a canonical name or names below it.
func (t *tree[V]) exists(name string) bool {
	_, ok := t.probe(name)
	return ok
}

// number returns the number of the item with a canonical name.
func (t *tree[V]) number(name string) (uint32, bool) {
	i, ok := t.probe(name)
	return i, ok && t.items[i].name[0] == name
}

// probe returns the number of the item with a canonical name, or of an item below it. It reports
// false if the name does not exist.
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

// treeSeed is random: nobody can choose names that share a slot.
var treeSeed = maphash.MakeSeed()

// home returns the first slot in which a name may be.
func (t *tree[V]) home(name string) int {
	high, _ := bits.Mul64(maphash.String(treeSeed, name), uint64(len(t.slots)))
	return int(high)
}

// after returns the slot after another.
func (t *tree[V]) after(at int) int {
	if at++; at == len(t.slots) {
		return 0
	}
	return at
}

// isWildcard reports whether the first label of a canonical name is an asterisk
// (RFC 4592, section 2.1.1).
func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// mayHaveWildcard reports whether a canonical name or a name above it may be a wildcard.
func mayHaveWildcard(name string) bool { return isWildcard(name) || strings.Contains(name, ".*.") }

// wildcard returns the wildcard directly below a canonical name, "" if none exists. A wildcard
// that exists has data (find), or is an empty non-terminal.
func (t *tree[V]) wildcard(encloser string) string {
	if i := t.wildcardFrom(encloser); i < len(t.wildcards) && parent(t.wildcards[i]) == encloser {
		return t.wildcards[i]
	}
	return ""
}

// hasEmptyWildcard reports whether the wildcard directly below a canonical name exists, without
// data.
func (t *tree[V]) hasEmptyWildcard(encloser string) bool {
	wildcard := t.wildcard(encloser)
	return wildcard != "" && t.find(wildcard) == nil
}

// isAboveWildcard reports whether a wildcard exists below a canonical name.
func (t *tree[V]) isAboveWildcard(name string) bool {
	i := t.wildcardFrom(name)
	return i < len(t.wildcards) && Under(parent(t.wildcards[i]), name)
}

// wildcardFrom returns the number of the first wildcard whose parent is not before a name.
func (t *tree[V]) wildcardFrom(name string) int {
	return sort.Search(len(t.wildcards), func(i int) bool { return compareNames(parent(t.wildcards[i]), name) >= 0 })
}

// parent is a canonical name without its first label, "." for a single label.
func parent(name string) string {
	i, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[i:]
}

// change sets what a name has, or removes the name.
type change[V any] struct {
	name string
	has  V
	gone bool
}

// changed stands for the new number of an item that a change is about.
const changed = ^uint32(0)

// edit returns the tree after changes: in canonical order, one for each name. A name that is
// removed must exist. moves[i] is the new number of the item that had the number i, or changed.
// edit takes time in proportion to the tree; it only copies if it neither adds nor removes a name.
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
			name = t.items[len(moves)].name // one string for all versions
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

// place is the number of an item, or the number that a new item comes before.
type place struct {
	at    int
	isNew bool
}

// places returns where changes apply.
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

// index makes the slots.
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

// nodes yields each name that exists, with the number of the first item with the name or below it.
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

// findWildcards makes the list of wildcards.
func (t *tree[V]) findWildcards() {
	for _, name := range t.nodes() {
		if isWildcard(name) {
			t.wildcards = append(t.wildcards, name)
		}
	}
	slices.SortFunc(t.wildcards, func(a, b string) int { return compareNames(parent(a), parent(b)) })
}
