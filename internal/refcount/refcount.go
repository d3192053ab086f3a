// SPDX-License-Identifier: Apache-2.0

// Package refcount shares values by a key, such as the connections to one database that several
// server blocks read, from the first that wants one to the last that lets it go.
package refcount

import "sync"

// Pool has the values that are in use. Its zero value is empty. Its methods may be called by
// several goroutines.
type Pool[K, V comparable] struct {
	mu      sync.Mutex // guards entries, and refs of each
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value V
	refs  int // calls of Acquire without a Release yet
}

// Acquire returns the value of a key with one reference more. If nobody has it, start makes it;
// others wait meanwhile, so it must not block. The error is that of start.
func (p *Pool[K, V]) Acquire(key K, start func() (V, error)) (V, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil {
		value, err := start()
		if err != nil {
			return value, err
		}
		if p.entries == nil {
			p.entries = map[K]*entry[V]{}
		}
		e = &entry[V]{value: value}
		p.entries[key] = e
	}
	e.refs++
	return e.value, nil
}

// Release takes one reference of a value back, and reports whether it was the last: the caller
// then ends the value. Who asks for the key from then on gets another one. A value that has no
// reference left is none of the pool's.
func (p *Pool[K, V]) Release(key K, value V) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil || e.value != value {
		return false
	}
	e.refs--
	if e.refs > 0 {
		return false
	}
	delete(p.entries, key)
	return true
}

// All returns the values in use, in any order.
func (p *Pool[K, V]) All() []V {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]V, 0, len(p.entries))
	for _, e := range p.entries {
		all = append(all, e.value)
	}
	return all
}
