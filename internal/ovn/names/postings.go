// SPDX-License-Identifier: Apache-2.0

package names

import (
	"math/bits"
	"slices"
	"sort"
)

// posting is a term, and the number of a network in its Union that has the term.
type posting struct {
	term    uint64
	network uint32
}

type order func(a, b uint32) int

func (o order) compare(a, b posting) int {
	switch {
	case a.term < b.term:
		return -1
	case a.term > b.term:
		return 1
	}
	return o(a.network, b.network)
}

// postings is an immutable set of postings, sorted by term and network. The zero postings is empty.
//
// It is a B+ tree of immutable nodes. An edited set shares all nodes without an edit below them. A library's
// tree would take twice the memory: nodes have no spare capacity, and few pointers for the garbage collector.
type postings struct{ root *node }

// maxEntries bounds the entries of a node. A change of one posting copies a node on each level.
const maxEntries = 128

// All leaves have the same depth.
type node struct {
	// terms and networks are the postings of a leaf, or the first posting below each child.
	terms    []uint64
	networks []uint32
	children []*node // nil for a leaf
}

func (n *node) len() int              { return len(n.terms) }
func (n *node) posting(i int) posting { return posting{n.terms[i], n.networks[i]} }

// before returns the number of entries with a smaller term. It starts where evenly distributed terms would be:
// terms are hashes, so it mostly stays in one cache line. A binary search would load several.
func (n *node) before(term uint64) int {
	last := len(n.terms) - 1
	if last < 0 || term <= n.terms[0] {
		return 0
	}
	if term > n.terms[last] {
		return last + 1
	}
	// first is less than term, and the last is not: span is not 0, and guess at most last.
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

// seek returns a cursor for a term. before returns how many entries of a node come before the wanted posting.
func (s postings) seek(term uint64, before func(*node) int) cursor {
	n := s.root
	if n == nil {
		return cursor{}
	}
	var right *node // the subtree right of the path
	for n.children != nil {
		// The posting is below the last child that begins before it, or it begins the next child.
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

func (c *cursor) network() uint32 { return c.leaf.networks[c.i] }

func (c *cursor) next(by order) {
	if c.i++; c.i < c.leaf.len() {
		return
	}
	last := c.leaf.posting(c.i - 1)
	*c = c.set.seek(c.term, func(n *node) int {
		return sort.Search(n.len(), func(i int) bool { return by.compare(n.posting(i), last) > 0 })
	})
}

// advance moves to the first posting of the term whose network is not before network.
func (c *cursor) advance(network uint32, by order) {
	p := posting{c.term, network}
	*c = c.set.seek(c.term, func(n *node) int { return n.beforePosting(p, by) })
}

type edit struct {
	posting
	add bool
}

// apply returns the set with edits, which it sorts in place. Adding a present posting or removing an absent one
// has no effect. Edits must not contradict each other. The time is proportional to the edits and the logarithm
// of the set.
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
		// Descend to the child of the first edit, with all edits of this child.
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
	out := &node{terms: make([]uint64, 0, n.len()+len(edits)), networks: make([]uint32, 0, n.len()+len(edits))}
	add := func(p posting) {
		out.terms, out.networks = append(out.terms, p.term), append(out.networks, p.network)
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
		terms: slices.Concat(last.terms, n.terms), networks: slices.Concat(last.networks, n.networks),
		children: slices.Concat(last.children, n.children),
	}
	return all
}

func parentOf(children []*node) *node {
	p := &node{terms: make([]uint64, len(children)), networks: make([]uint32, len(children)), children: children}
	for i, c := range children {
		p.terms[i], p.networks[i] = c.terms[0], c.networks[0]
	}
	return p
}

// split divides a node into nodes of similar lengths, at most maxEntries, without spare capacity.
func split(n *node) []*node {
	parts := (n.len() + maxEntries - 1) / maxEntries
	all := make([]*node, 0, parts)
	for i := range parts {
		from, to := i*n.len()/parts, (i+1)*n.len()/parts
		part := &node{terms: slices.Clone(n.terms[from:to:to]), networks: slices.Clone(n.networks[from:to:to])}
		if n.children != nil {
			part.children = slices.Clone(n.children[from:to:to])
		}
		all = append(all, part)
	}
	return all
}
