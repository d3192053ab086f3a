// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shardCount bounds what one change of a snapshot copies: a 256th of a map.
const shardCount = 256

var shardSeed = maphash.MakeSeed()

// sharded is a map whose copies share the shards that do not differ.
type sharded[K comparable, V any] struct {
	shards *[shardCount]map[K]V
}

func (m sharded[K, V]) get(k K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shards[maphash.Comparable(shardSeed, k)%shardCount][k]
	return v, ok
}

func (m sharded[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.shards == nil {
			return
		}
		for _, shard := range m.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit returns a copy of m that can be written until the next edit.
func (m sharded[K, V]) edit() *editor[K, V] {
	e := &editor[K, V]{shards: new([shardCount]map[K]V)}
	if m.shards != nil {
		*e.shards = *m.shards
	}
	return e
}

// editor is a sharded map in the making. The first write to a shard copies it.
type editor[K comparable, V any] struct {
	shards *[shardCount]map[K]V
	own    [shardCount]bool
}

func (e *editor[K, V]) shard(k K) map[K]V {
	i := maphash.Comparable(shardSeed, k) % shardCount
	if !e.own[i] {
		e.own[i] = true
		if e.shards[i] = maps.Clone(e.shards[i]); e.shards[i] == nil {
			e.shards[i] = make(map[K]V)
		}
	}
	return e.shards[i]
}

func (e *editor[K, V]) get(k K) (V, bool) { return e.done().get(k) }
func (e *editor[K, V]) set(k K, v V)      { e.shard(k)[k] = v }

func (e *editor[K, V]) remove(k K) {
	if _, ok := e.get(k); ok {
		delete(e.shard(k), k)
	}
}

func (e *editor[K, V]) done() sharded[K, V] { return sharded[K, V]{e.shards} }
