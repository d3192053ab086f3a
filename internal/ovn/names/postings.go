// SPDX-License-Identifier: Apache-2.0

package names

import (
	"math/bits"
	"slices"
	"sort"
)

type posting struct {
	term   uint64
	member uint32
}

type order func(a, b uint32) int

func (o order) compare(a, b posting) int {
	switch {
	case a.term < b.term:
		return -1
	case a.term > b.term:
		return 1
	}
	return o(a.member, b.member)
}

// postings is an immutable sorted set. Its B+ tree shares all nodes without an edit below them. A library's
// tree would take twice the memory: these nodes have no spare capacity and few pointers.
type postings struct{ root *node }

// A change of one posting copies a node on each level.
const maxEntries = 128

type node struct {
	// terms and members are the postings of a leaf, or the first posting below each child.
	terms    []uint64
	members  []uint32
	children []*node
}

func (n *node) len() int              { return len(n.terms) }
func (n *node) posting(i int) posting { return posting{n.terms[i], n.members[i]} }

// before starts where evenly distributed hashes would be, mostly in one cache line, where a binary search
// would load several.
func (n *node) before(term uint64) int {
	last := len(n.terms) - 1
	if last < 0 || term <= n.terms[0] {
		return 0
	}
	if term > n.terms[last] {
		return last + 1
	}
	// first < term <= last, so span is not 0, and guess is at most last.
	first, span := n.terms[0], n.terms[last]-n.terms[0]
	high, low := bits.Mul64(term-first, uint64(last))
	guess, _ := bits.Div64(high, low, span)
	i := int(guess)
	for i > 0 && n.terms[i-1] >= term {
		i--
	}
	for n.terms[i] < term {
		i++
	}
	return i
}

func (n *node) beforePosting(p posting, by order) int {
	return sort.Search(n.len(), func(i int) bool { return by.compare(n.posting(i), p) >= 0 })
}

func (s postings) seek(term uint64, before func(*node) int) cursor {
	n := s.root
	if n == nil {
		return cursor{}
	}
	var right *node
	for n.children != nil {
		// The posting is below the last child that begins before it, or begins the next child.
		i := max(before(n)-1, 0)
		if i+1 < len(n.children) {
			right = n.children[i+1]
		}
		n = n.children[i]
	}
	i := before(n)
	if i == n.len() {
		if n, i = right, 0; n == nil {
			return cursor{}
		}
		for n.children != nil {
			n = n.children[0]
		}
	}
	return cursor{set: s, term: term, leaf: n, i: i}
}

func (s postings) find(term uint64) cursor {
	return s.seek(term, func(n *node) int { return n.before(term) })
}

// cursor is a position in the postings of one term. The zero cursor is at the end.
type cursor struct {
	set  postings
	term uint64
	leaf *node
	i    int
}

func (c *cursor) valid() bool { return c.leaf != nil && c.leaf.terms[c.i] == c.term }

func (c *cursor) member() uint32 { return c.leaf.members[c.i] }

func (c *cursor) next(by order) {
	if c.i++; c.i < c.leaf.len() {
		return
	}
	last := c.leaf.posting(c.i - 1)
	*c = c.set.seek(c.term, func(n *node) int {
		return sort.Search(n.len(), func(i int) bool { return by.compare(n.posting(i), last) > 0 })
	})
}

func (c *cursor) advance(member uint32, by order) {
	p := posting{c.term, member}
	*c = c.set.seek(c.term, func(n *node) int { return n.beforePosting(p, by) })
}

type edit struct {
	posting
	add bool
}

// apply returns the set with edits, which it sorts in place. The time is proportional to the edits and the
// logarithm of the set.
func (s postings) apply(edits []edit, by order) postings {
	slices.SortFunc(edits, func(a, b edit) int { return by.compare(a.posting, b.posting) })
	edits = slices.Compact(edits)
	if len(edits) == 0 {
		return s
	}
	root := s.root
	if root == nil {
		root = &node{}
	}
	level := root.apply(edits, by)
	for len(level) > 1 {
		level = split(parentOf(level))
	}
	if len(level) == 0 {
		return postings{}
	}
	for root = level[0]; len(root.children) == 1; {
		root = root.children[0]
	}
	return postings{root}
}

func (n *node) apply(edits []edit, by order) []*node {
	if n.children == nil {
		return split(n.merge(edits, by))
	}
	var children []*node
	for i := 0; len(edits) > 0; {
		to := max(sort.Search(n.len(), func(k int) bool { return by.compare(n.posting(k), edits[0].posting) > 0 })-1, i)
		children = append(children, n.children[i:to]...)
		its := edits
		if i = to + 1; i < n.len() {
			next := n.posting(i)
			its = edits[:sort.Search(len(edits), func(k int) bool { return by.compare(edits[k].posting, next) >= 0 })]
		}
		edits = edits[len(its):]
		for _, child := range n.children[to].apply(its, by) {
			children = appendJoined(children, child)
		}
		if len(edits) > 0 {
			continue
		}
		if i < n.len() {
			children = appendJoined(children, n.children[i])
			children = append(children, n.children[i+1:]...)
		}
	}
	return split(parentOf(children))
}

func (n *node) merge(edits []edit, by order) *node {
	out := &node{terms: make([]uint64, 0, n.len()+len(edits)), members: make([]uint32, 0, n.len()+len(edits))}
	add := func(p posting) {
		out.terms, out.members = append(out.terms, p.term), append(out.members, p.member)
	}
	i := 0
	for _, e := range edits {
		for i < n.len() && by.compare(n.posting(i), e.posting) < 0 {
			add(n.posting(i))
			i++
		}
		if i < n.len() && n.posting(i) == e.posting {
			i++
		}
		if e.add {
			add(e.posting)
		}
	}
	for ; i < n.len(); i++ {
		add(n.posting(i))
	}
	return out
}

func appendJoined(all []*node, n *node) []*node {
	if len(all) == 0 || all[len(all)-1].len()+n.len() > maxEntries/2 {
		return append(all, n)
	}
	last := all[len(all)-1]
	all[len(all)-1] = &node{
		terms: slices.Concat(last.terms, n.terms), members: slices.Concat(last.members, n.members),
		children: slices.Concat(last.children, n.children),
	}
	return all
}

func parentOf(children []*node) *node {
	p := &node{terms: make([]uint64, len(children)), members: make([]uint32, len(children)), children: children}
	for i, c := range children {
		p.terms[i], p.members[i] = c.terms[0], c.members[0]
	}
	return p
}

// split makes nodes of at most maxEntries, without spare capacity.
func split(n *node) []*node {
	parts := (n.len() + maxEntries - 1) / maxEntries
	all := make([]*node, 0, parts)
	for i := range parts {
		from, to := i*n.len()/parts, (i+1)*n.len()/parts
		part := &node{terms: slices.Clone(n.terms[from:to:to]), members: slices.Clone(n.members[from:to:to])}
		if n.children != nil {
			part.children = slices.Clone(n.children[from:to:to])
		}
		all = append(all, part)
	}
	return all
}
