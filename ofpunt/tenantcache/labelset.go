// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// mask is a set of labels by number.
type mask uint64

const maxLabels = 64

func (m mask) has(n int) bool { return m>>n&1 != 0 }

// labelSet assigns permanent numbers to labels.
type labelSet struct {
	// named by the block: each query has them
	known   []string
	numbers atomic.Pointer[numbering]
	mu      sync.Mutex // for writers of numbers
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

// ok is false beyond maxLabels.
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

func (s *labelSet) names() []string { return s.numbers.Load().names }
