// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// all returns the postings of a set, and complains about nodes that are not as they have to be.
func (s postings) all(t testing.TB, by order) (all []posting) {
	t.Helper()
	leaves := -1
	var walk func(n *node, depth int, root bool)
	walk = func(n *node, depth int, root bool) {
		if n.len() == 0 || n.len() > maxEntries || len(n.members) != n.len() || n.children != nil && len(n.children) != n.len() || root && len(n.children) == 1 {
			t.Fatalf("a node of %d, %d and %d entries", len(n.terms), len(n.members), len(n.children))
		}
		if n.children == nil {
			if leaves >= 0 && leaves != depth {
				t.Fatalf("leaves at depths %d and %d", leaves, depth)
			}
			leaves = depth
			for i := range n.terms {
				all = append(all, n.posting(i))
			}
		}
		for i, c := range n.children {
			if c.posting(0) != n.posting(i) {
				t.Fatalf("a child begins with %v, and is said to begin with %v", c.posting(0), n.posting(i))
			}
			walk(c, depth+1, false)
		}
	}
	if s.root != nil {
		walk(s.root, 0, true)
	}
	if !slices.IsSortedFunc(all, by.compare) {
		t.Fatal("the postings are not sorted")
	}
	return all
}

// Sets after random edits have what a plain map has, and so have the sets before them.
func TestPostings(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ranks := r.Perm(1000) // the order of members is not that of their numbers
	by := order(func(a, b uint32) int { return cmp.Compare(ranks[a], ranks[b]) })
	for _, terms := range []int{1, 3, 500, 1 << 20} {
		t.Run(fmt.Sprintf("%d terms", terms), func(t *testing.T) {
			have := make(map[posting]bool)
			var s, before postings
			var want []posting
			for step := range 300 {
				if step%50 == 25 { // nearly all of them go
					var edits []edit
					for p := range have {
						if r.IntN(20) > 0 {
							edits = append(edits, edit{p, false})
							delete(have, p)
						}
					}
					s = s.apply(edits, by)
				}
				changes := make(map[posting]bool)
				for range []int{1, 10, 300}[r.IntN(3)] {
					changes[posting{uint64(r.IntN(terms)), uint32(r.IntN(len(ranks)))}] = r.IntN(3) > 0
				}
				var edits []edit
				for p, add := range changes {
					edits = append(edits, edit{p, add})
					if have[p] = add; !add {
						delete(have, p)
					}
					if r.IntN(4) == 0 {
						edits = append(edits, edit{p, add})
					}
				}
				before, s = s, s.apply(edits, by)
				if got := before.all(t, by); step%50 != 25 && !slices.Equal(got, want) {
					t.Fatalf("step %d: the set before has changed", step)
				}
				want = want[:0]
				for p := range have {
					want = append(want, p)
				}
				slices.SortFunc(want, by.compare)
				if got := s.all(t, by); !slices.Equal(got, want) {
					t.Fatalf("step %d: %d postings, want %d", step, len(got), len(want))
				}
				for range 5 {
					checkCursor(t, s, want, uint64(r.IntN(terms)), uint32(r.IntN(len(ranks))), by)
				}
			}
		})
	}
}

// checkCursor compares what cursors find of a term, from its beginning and from a member on.
func checkCursor(t *testing.T, s postings, all []posting, term uint64, from uint32, by order) {
	t.Helper()
	var want, wantFrom, got, gotFrom []uint32
	for _, p := range all {
		if p.term == term {
			want = append(want, p.member)
			if by(p.member, from) >= 0 {
				wantFrom = append(wantFrom, p.member)
			}
		}
	}
	c := s.find(term)
	later := c
	for ; c.valid(); c.next(by) {
		got = append(got, c.member())
	}
	if later.valid() {
		for later.advance(from, by); later.valid(); later.next(by) {
			gotFrom = append(gotFrom, later.member())
		}
	}
	if !slices.Equal(got, want) || !slices.Equal(gotFrom, wantFrom) {
		t.Fatalf("term %d: %v and %v, want %v and %v", term, got, gotFrom, want, wantFrom)
	}
}

// A change of one posting shares all nodes but one of each level.
func TestPostingsShare(t *testing.T) {
	by := order(func(a, b uint32) int { return cmp.Compare(a, b) })
	var edits []edit
	for i := range uint64(100_000) {
		edits = append(edits, edit{posting{i * 7919, 1}, true})
	}
	s := postings{}.apply(edits, by)
	nodes := make(map[*node]bool)
	var collect func(n *node, to map[*node]bool) (fresh int)
	collect = func(n *node, to map[*node]bool) (fresh int) {
		if to[n] {
			return 0
		}
		to[n] = true
		fresh = 1
		for _, c := range n.children {
			fresh += collect(c, to)
		}
		return fresh
	}
	total := collect(s.root, nodes)
	next := s.apply([]edit{{posting{5, 1}, true}}, by)
	if fresh := collect(next.root, nodes); fresh > 5 || total < 700 {
		t.Errorf("%d nodes of %d are new", fresh, total)
	}
	// A set that has shrunk takes no more nodes than it needs.
	for i := range edits {
		edits[i].add = i%100 == 0
	}
	s = s.apply(edits, by)
	if got := collect(s.root, make(map[*node]bool)); got > 4*len(s.all(t, by))/maxEntries+4 {
		t.Errorf("%d nodes for %d postings", got, len(s.all(t, by)))
	}
}
