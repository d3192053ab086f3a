// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Union is networks that share their names, with an index of the names. A lookup finds the networks that may
// know a name, and queries them in the order of their IDs. Union is immutable; the zero Union has no networks.
//
// The time of a lookup grows with the logarithm of all names, and with the ancestors of the name that have
// wildcards below them. It queries one network for an answer, and none for a miss. There are two exceptions.
//
// It skips networks in which another name hides the wildcard, in some 10 ns each. And it queries networks whose
// ports without a domain have the queried address, or hide a wildcard, while other records have their names in
// the domain.
type Union struct {
	// unindexed has fewer than minIndexed networks, sorted. The other fields are the index of more networks.
	unindexed []network
	// chunks have the networks by number. A network has the same number as long as it is joined; free are
	// unused numbers.
	chunks []*chunk
	free   []uint32
	count  int
	// terms has names and addresses, wild has names with wildcards below them, subnets4 and subnets6 have
	// prefixes.
	terms, wild, subnets4, subnets6 postings
}

// minIndexed is the least number of networks with an index. To query three in order takes no longer.
const minIndexed = 4

// A network without a directory is a free number.
type network struct {
	id        [16]byte
	directory *Directory
}

// chunk bounds the copy for a change of one network.
type chunk [64]network

func (j *Union) at(n uint32) *network {
	return &j.chunks[n/uint32(len(chunk{}))][n%uint32(len(chunk{}))]
}

func (j *Union) order(a, b uint32) int {
	if a == b {
		return 0
	}
	return bytes.Compare(j.at(a).id[:], j.at(b).id[:])
}

func (j *Union) Len() int { return len(j.unindexed) + j.count }

func (j *Union) All() iter.Seq2[[16]byte, *Directory] {
	return func(yield func([16]byte, *Directory) bool) {
		for _, n := range j.unindexed {
			if !yield(n.id, n.directory) {
				return
			}
		}
		for _, c := range j.chunks {
			for i := range c {
				if c[i].directory != nil && !yield(c[i].id, c[i].directory) {
					return
				}
			}
		}
	}
}

func (j *Union) Get(id [16]byte) *Directory {
	for i := range j.unindexed {
		if j.unindexed[i].id == id {
			return j.unindexed[i].directory
		}
	}
	if n, ok := j.number(id); ok {
		return j.at(n).directory
	}
	return nil
}

func (j *Union) number(id [16]byte) (uint32, bool) {
	for c := j.terms.find(nameTerm(kindIdentity, string(id[:]))); c.valid(); c.next(j.order) {
		if n := c.network(); j.at(n).id == id {
			return n, true
		}
	}
	return 0, false
}

func (j *Union) hasMachine(a netip.Addr) bool {
	for i := range j.unindexed {
		if j.unindexed[i].directory.HasMachine(a) {
			return true
		}
	}
	for c := j.terms.find(addressTerm(kindMachine, a)); c.valid(); c.next(j.order) {
		if j.at(c.network()).directory.HasMachine(a) {
			return true
		}
	}
	return false
}

// Edit returns an editor of j, which may be nil.
func (j *Union) Edit() *UnionEditor {
	if j == nil {
		j = new(Union)
	}
	return &UnionEditor{base: j, changes: make(map[[16]byte]*Directory)}
}

type UnionEditor struct {
	base    *Union
	changes map[[16]byte]*Directory // nil removes
}

func (e *UnionEditor) Set(id [16]byte, d *Directory) { e.changes[id] = d }

func (e *UnionEditor) Remove(id [16]byte) { e.changes[id] = nil }

// Done returns the Union. The time is proportional to the changed rows of replaced networks, all ports of
// networks with a changed port, and the size of joined and removed networks.
func (e *UnionEditor) Done() *Union {
	count := e.base.Len()
	for id, d := range e.changes {
		switch had := e.base.Get(id) != nil; {
		case d != nil && !had:
			count++
		case d == nil && had:
			count--
		}
	}
	base, changes := e.base, e.changes
	if count < minIndexed || base.count == 0 {
		all := maps.Collect(base.All())
		maps.Copy(all, changes)
		maps.DeleteFunc(all, func(_ [16]byte, d *Directory) bool { return d == nil })
		base, changes = new(Union), all
	}
	if count < minIndexed {
		return newUnindexed(changes)
	}
	next := *base
	b := indexBuilder{next: &next, copied: make(map[int]bool)}
	next.chunks = slices.Clone(base.chunks)
	next.free = slices.Clone(base.free)
	for id, d := range changes {
		b.replace(id, d)
	}
	b.flush()
	// Removed numbers are free from the next edit on. Until then the order of their postings must not change.
	for _, n := range b.removed {
		*next.at(n) = network{}
	}
	next.free = append(next.free, b.removed...)
	return &next
}

func newUnindexed(all map[[16]byte]*Directory) *Union {
	j := &Union{unindexed: make([]network, 0, len(all))}
	for id, d := range all {
		j.unindexed = append(j.unindexed, network{id, d})
	}
	slices.SortFunc(j.unindexed, func(a, b network) int { return bytes.Compare(a.id[:], b.id[:]) })
	return j
}

// maxEdits bounds the pending edits, and so the peak memory of a first index.
const maxEdits = 1 << 15

type indexBuilder struct {
	next                            *Union
	copied                          map[int]bool // chunks that only next has
	removed                         []uint32     // numbers of removed networks
	edits, wild, subnets4, subnets6 []edit
}

// noNetwork is the previous version of a new network, and the next version of a removed one.
var noNetwork = NewDirectory(nil, NewHostnamesBuilder().Done())

func (b *indexBuilder) replace(id [16]byte, d *Directory) {
	n, had := b.next.number(id)
	if !had && d == nil {
		return
	}
	identity := edit{posting{nameTerm(kindIdentity, string(id[:])), n}, true}
	old, next := &noNetwork, d
	switch {
	case !had:
		n = b.newNumber()
		identity.network = n
		b.edits = append(b.edits, identity)
		b.next.count++
		*b.writable(n) = network{id, d}
	case d == nil:
		old, next = b.next.at(n).directory, &noNetwork
		identity.add = false
		b.edits = append(b.edits, identity)
		b.next.count--
		b.removed = append(b.removed, n)
		b.writable(n).directory = nil
	default:
		old = b.next.at(n).directory
		b.writable(n).directory = d
	}
	x := difference{
		network: n, old: old, next: next, edits: &b.edits, wild: &b.wild, subnets4: &b.subnets4, subnets6: &b.subnets6,
		nodes: make(map[string]struct{}), bareNodes: make(map[string]struct{}), aboveWildcards: make(map[string]struct{}),
	}
	x.add()
	if len(b.edits)+len(b.wild)+len(b.subnets4)+len(b.subnets6) > maxEdits {
		b.flush()
	}
}

func (b *indexBuilder) flush() {
	apply := func(to *postings, edits *[]edit) {
		*to = to.apply(*edits, b.next.order)
		*edits = (*edits)[:0]
	}
	apply(&b.next.terms, &b.edits)
	apply(&b.next.wild, &b.wild)
	apply(&b.next.subnets4, &b.subnets4)
	apply(&b.next.subnets6, &b.subnets6)
}

func (b *indexBuilder) newNumber() uint32 {
	if last := len(b.next.free) - 1; last >= 0 {
		n := b.next.free[last]
		b.next.free = b.next.free[:last]
		return n
	}
	at := len(b.next.chunks)
	b.copied[at] = true
	b.next.chunks = append(b.next.chunks, new(chunk))
	first := uint32(at * len(chunk{}))
	for n := first + uint32(len(chunk{})) - 1; n > first; n-- {
		b.next.free = append(b.next.free, n)
	}
	return first
}

func (b *indexBuilder) writable(n uint32) *network {
	if i := int(n) / len(chunk{}); !b.copied[i] {
		b.copied[i] = true
		c := *b.next.chunks[i]
		b.next.chunks[i] = &c
	}
	return b.next.at(n)
}
