// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Union is networks that share their names. A lookup queries the networks that may know a name, in ID order.
// Union is immutable.
//
// The time of a lookup grows with the logarithm of all names, and with the ancestors of the name that have
// wildcards below them. A hit queries one network, a miss none, with two exceptions. The lookup skips
// networks in which another name hides the wildcard, in some 10 ns each. And it queries networks whose ports
// without a domain have the address, or hide a wildcard, while other records have their names in the domain.
type Union struct {
	unindexed []network
	index[*Directory]
}

type network struct {
	id        [16]byte
	directory *Directory
}

func (j *Union) Len() int { return len(j.unindexed) + j.count }

func (j *Union) All() iter.Seq2[[16]byte, *Directory] {
	return func(yield func([16]byte, *Directory) bool) {
		for _, n := range j.unindexed {
			if !yield(n.id, n.directory) {
				return
			}
		}
		for id, d := range j.all() {
			if !yield(id, d) {
				return
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
	if n, ok := j.number(id, anyDirectory); ok {
		return j.get(n)
	}
	return nil
}

func anyDirectory(*Directory) bool { return true }

func (j *Union) hasMachine(a netip.Addr) bool {
	for i := range j.unindexed {
		if j.unindexed[i].directory.HasMachine(a) {
			return true
		}
	}
	for c := j.terms.find(addressTerm(kindMachine, a)); c.valid(); c.next(j.order) {
		if j.get(c.member()).HasMachine(a) {
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
	changes map[[16]byte]*Directory
}

func (e *UnionEditor) Set(id [16]byte, d *Directory) { e.changes[id] = d }

func (e *UnionEditor) Remove(id [16]byte) { e.changes[id] = nil }

// Done takes time proportional to the changed rows, all ports of networks with a changed port, and the size
// of added and removed networks.
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
	edit := base.index.edit(&noNetwork)
	for id, d := range changes {
		switch n, had := edit.next.number(id, anyDirectory); {
		case d == nil && had:
			edit.remove(n)
		case had:
			edit.replace(n, d)
		case d != nil:
			edit.add(id, d)
		}
	}
	return &Union{index: edit.done()}
}

func newUnindexed(all map[[16]byte]*Directory) *Union {
	j := &Union{unindexed: make([]network, 0, len(all))}
	for id, d := range all {
		j.unindexed = append(j.unindexed, network{id, d})
	}
	slices.SortFunc(j.unindexed, func(a, b network) int { return bytes.Compare(a.id[:], b.id[:]) })
	return j
}

var noNetwork = NewDirectory(nil, NewHostnamesBuilder().Done())
