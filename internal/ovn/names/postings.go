// SPDX-License-Identifier: Apache-2.0

package names

import (
	"math/bits"
	"slices"
	"sort"
)

// posting says that a network has a term: what is looked up, as a number. The network is the
// number that it has in its Union.
type posting struct {
	term    uint64
	network uint32
}

// order compares two networks by the order in which they are asked.
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

// postings is an immutable sorted set of postings: by their terms, those of one term in the
// order of their networks. It is a B+ tree whose nodes are never changed: an edited set shares
// with the one before all nodes that have no edit below them. A library's tree would take
// twice the memory: the nodes here are exactly as large as what is in them, and have pointers
// to other nodes only, so that the garbage collector skips the rest. The zero postings is empty.
type postings struct{ root *node }

// maxEntries bounds the entries of a node. A change of one posting copies a node of each level.
const maxEntries = 128

// node is a node of the tree. All leaves are at one depth.
type node struct {
	// terms and networks have the postings of a leaf; else the first posting below each child.
	terms    []uint64
	networks []uint32
	children []*node // nil for a leaf
}

func (n *node) len() int              { return len(n.terms) }
func (n *node) posting(i int) posting { return posting{n.terms[i], n.networks[i]} }

// before returns the number of entries whose terms are less than one. It looks first where the term
// would be if the terms of the node lay at equal distances: those of names and addresses are hashes,
// so that is a few entries away, mostly in the same line of the processor's cache. To halve the node
// until it is found would load one line after the other.
func (n *node) before(term uint64) int {
	last := len(n.terms) - 1
	if last < 0 || term <= n.terms[0] {
		return 0
	}
	if term > n.terms[last] {
		return last + 1
	}
	// The first term is less, and the last is not: the span is not 0, and the guess at most last.
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

// beforePosting returns the number of entries that are less than a posting.
func (n *node) beforePosting(p posting, by order) int {
	return sort.Search(n.len(), func(i int) bool { return by.compare(n.posting(i), p) >= 0 })
}

// seek returns a cursor at the first posting that is not less than what before compares with:
// before returns the number of entries of a node that are less. The cursor is for the postings
// of one term.
func (s postings) seek(term uint64, before func(*node) int) cursor {
	n := s.root
	if n == nil {
		return cursor{}
	}
	var right *node // what is behind the way down
	for n.children != nil {
		// The last child that begins with less has the place, or ends before it.
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

// find returns a cursor at the first posting of a term, or behind where it would be.
func (s postings) find(term uint64) cursor {
	return s.seek(term, func(n *node) int { return n.before(term) })
}

// cursor is a place in a set of postings, for those of one term. The zero cursor is at the end.
type cursor struct {
	set  postings
	term uint64
	leaf *node
	i    int
}

// valid reports whether the cursor is at a posting of its term.
func (c *cursor) valid() bool { return c.leaf != nil && c.leaf.terms[c.i] == c.term }

// network is that of the posting that the cursor is at.
func (c *cursor) network() uint32 { return c.leaf.networks[c.i] }

// next goes to the next posting of the term.
func (c *cursor) next(by order) {
	if c.i++; c.i < c.leaf.len() {
		return
	}
	last := c.leaf.posting(c.i - 1)
	*c = c.set.seek(c.term, func(n *node) int {
		return sort.Search(n.len(), func(i int) bool { return by.compare(n.posting(i), last) > 0 })
	})
}

// advance goes to the first posting of the term whose network is not before one.
func (c *cursor) advance(network uint32, by order) {
	p := posting{c.term, network}
	*c = c.set.seek(c.term, func(n *node) int { return n.beforePosting(p, by) })
}

// edit is a posting that comes or goes.
type edit struct {
	posting
	add bool
}

// apply returns the set with edits, which it sorts in place. A posting that comes may be there,
// one that goes may be absent, and edits may be repeated; but none may contradict another. It
// takes time in proportion to the edits and to the logarithm of the set.
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

// apply returns nodes of the same depth with what is in n after edits: none if that is nothing.
func (n *node) apply(edits []edit, by order) []*node {
	if n.children == nil {
		return split(n.merge(edits, by))
	}
	var children []*node
	for i := 0; len(edits) > 0; {
		// Go to the child of the first edit, and take all edits of that child.
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

// merge returns the leaf with edits, of whatever length.
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

// appendJoined appends a node to others of its depth, or joins it with the last if both are
// small: so a set that shrinks has no more nodes than it needs, by a factor.
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

// parentOf returns a node with those children, however many they are.
func parentOf(children []*node) *node {
	p := &node{terms: make([]uint64, len(children)), networks: make([]uint32, len(children)), children: children}
	for i, c := range children {
		p.terms[i], p.networks[i] = c.terms[0], c.networks[0]
	}
	return p
}

// split divides a node of any length into nodes of at most maxEntries, of the same length as
// far as that can be. It copies, so that no node holds on to more memory than it needs.
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
