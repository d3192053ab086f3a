// SPDX-License-Identifier: Apache-2.0

// Package spacesaving counts the most frequent keys of a stream in bounded memory, by the algorithm
// Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
// Streams, 2005). Counts are exact as long as there are no more keys than counters. The package has no clock
// and no goroutine.
package spacesaving

import (
	"cmp"
	"slices"
)

// Counts are the counters of keys, each with a value of the caller. It is not safe for concurrent use.
type Counts[V any] struct {
	room int
	by   map[string]*Counter[V]
	// heap has all counters, as a binary heap by ranked. Counting a known key leaves the heap as it is: a
	// rank is updated only when a new key needs a counter.
	heap  []*Counter[V]
	spare []*Counter[V] // of keys that were forgotten
	// taken is set once a counter was taken from a key.
	taken bool
}

// Counter is the count of one key.
type Counter[V any] struct {
	Key string
	// N is at least how often the key was counted, and at most Over too high.
	N, Over uint64
	// Value is the caller's. It is the zero value when the key gets its counter.
	Value V
	// ranked is a former N, by which the heap is ordered.
	ranked uint64
}

// New returns Counts with so many counters, at least one.
func New[V any](room int) *Counts[V] {
	room = max(room, 1)
	return &Counts[V]{room: room, by: make(map[string]*Counter[V], room)}
}

// Add counts a key once, and returns its counter. It does not keep key. fresh reports whether the key had no
// counter before. If no counter was free, the key has taken the counter of the least frequent key.
func (c *Counts[V]) Add(key []byte) (counter *Counter[V], fresh bool) {
	if k := c.by[string(key)]; k != nil {
		k.N++
		return k, false
	}
	k := c.counterFor(string(key))
	k.N++
	c.by[k.Key] = k
	return k, true
}

// counterFor returns the counter that a new key gets.
func (c *Counts[V]) counterFor(key string) *Counter[V] {
	if len(c.by) < c.room {
		k := new(Counter[V])
		if n := len(c.spare); n > 0 {
			k, c.spare = c.spare[n-1], c.spare[:n-1]
		}
		*k = Counter[V]{Key: key}
		c.heap = append(c.heap, k) // no rank is lower
		c.up(len(c.heap) - 1)
		return k
	}
	k := c.least()
	c.taken = true
	delete(c.by, k.Key)
	*k = Counter[V]{Key: key, N: k.N, Over: k.N, ranked: k.N}
	return k
}

// least returns the counter with the lowest N, which is the first of the heap then.
func (c *Counts[V]) least() *Counter[V] {
	for {
		k := c.heap[0]
		if k.ranked == k.N {
			return k // others have their rank at least
		}
		k.ranked = k.N
		c.down(0)
	}
}

func (c *Counts[V]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if c.heap[parent].ranked <= c.heap[i].ranked {
			return
		}
		c.heap[parent], c.heap[i] = c.heap[i], c.heap[parent]
		i = parent
	}
}

func (c *Counts[V]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.heap); child++ {
			if c.heap[child].ranked < c.heap[least].ranked {
				least = child
			}
		}
		if least == i {
			return
		}
		c.heap[least], c.heap[i] = c.heap[i], c.heap[least]
		i = least
	}
}

// Top returns the counters of the most frequent keys, n at most, the most frequent first and those
// with one N by their keys. They are valid until the next call of Add or Reset.
func (c *Counts[V]) Top(n int) []*Counter[V] {
	all := slices.Clone(c.heap)
	slices.SortFunc(all, func(a, b *Counter[V]) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Key, b.Key)) })
	return all[:min(n, len(all))]
}

// Len returns how many keys have a counter.
func (c *Counts[V]) Len() int { return len(c.by) }

// Missing returns how often a key without a counter was counted at most: 0 as long as there were
// counters for all keys, and never more than the sum of all counts divided by the number of counters.
func (c *Counts[V]) Missing() uint64 {
	if !c.taken {
		return 0
	}
	return c.least().N
}

// Reset forgets all keys.
func (c *Counts[V]) Reset() {
	c.spare = append(c.spare, c.heap...)
	c.heap = c.heap[:0]
	c.taken = false
	clear(c.by)
}
