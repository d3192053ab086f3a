// SPDX-License-Identifier: Apache-2.0

// Package refcount shares values by a key, such as the connection to a database that several server blocks read.
package refcount

import "sync"

// Pool has the values with references. The zero Pool is empty. It is safe for concurrent use.
type Pool[K, V comparable] struct {
	mu      sync.Mutex // guards entries, and refs of each
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value V
	refs  int // calls of Acquire without a Release yet
}

// Acquire adds a reference to the value of a key, and returns the value. start makes a new value, and must not block,
// as other calls wait. Errors come from start.
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

// Release removes a reference to a value. It reports whether the reference was the last: the caller then ends the value,
// and Acquire will start another one. Release ignores a value without references.
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

// All returns the values, in no order.
func (p *Pool[K, V]) All() []V {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]V, 0, len(p.entries))
	for _, e := range p.entries {
		all = append(all, e.value)
	}
	return all
}
