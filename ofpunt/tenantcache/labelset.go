// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// mask is a set of labels, by their numbers in a labelSet.
type mask uint64

// maxLabels is how many labels a mask has room for.
const maxLabels = 64

// has reports whether the label with number n is in m.
func (m mask) has(n int) bool { return m>>n&1 != 0 }

// labelSet gives the labels of a block numbers, which they keep.
type labelSet struct {
	// known are those that the block names: each query has them.
	known   []string
	numbers atomic.Pointer[numbering]
	mu      sync.Mutex // held while numbers is replaced
}

// numbering is immutable.
type numbering struct {
	of    map[string]int
	names []string // by number
}

func newLabelSet(known []string) *labelSet {
	s := &labelSet{known: known}
	s.numbers.Store(&numbering{of: map[string]int{}})
	for _, l := range known {
		s.number(l)
	}
	return s
}

// number returns the number of a label. It reports whether it has one: there is room for
// maxLabels.
func (s *labelSet) number(label string) (n int, ok bool) {
	if n, ok := s.numbers.Load().of[label]; ok {
		return n, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.numbers.Load()
	if n, ok := old.of[label]; ok {
		return n, true
	}
	n = len(old.names)
	if n == maxLabels {
		return 0, false
	}
	next := &numbering{of: maps.Clone(old.of), names: append(slices.Clone(old.names), label)}
	next.of[label] = n
	s.numbers.Store(next)
	return n, true
}

// names returns the labels of a mask by their numbers, in which all labels of the mask are.
func (s *labelSet) names() []string { return s.numbers.Load().names }
