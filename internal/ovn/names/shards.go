// SPDX-License-Identifier: Apache-2.0

package names

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shardCount bounds what a change of one key copies: a 256th of the map.
const shardCount = 256

var shardSeed = maphash.MakeSeed()

// ShardedMap is an immutable map. A map that is edited shares with the one before
// the shards that do not differ. The zero ShardedMap is empty.
type ShardedMap[K comparable, V any] struct {
	shards *[shardCount]map[K]V
}

// Get returns the value of a key, and reports whether there is one.
func (m ShardedMap[K, V]) Get(k K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shards[maphash.Comparable(shardSeed, k)%shardCount][k]
	return v, ok
}

// All returns all keys and values, in no order.
func (m ShardedMap[K, V]) All() iter.Seq2[K, V] {
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

// Edit returns a copy of m that can be written.
func (m ShardedMap[K, V]) Edit() *MapEditor[K, V] {
	e := &MapEditor[K, V]{shards: new([shardCount]map[K]V)}
	if m.shards != nil {
		*e.shards = *m.shards
	}
	return e
}

// MapEditor is a ShardedMap in the making. The first write to a shard copies it.
type MapEditor[K comparable, V any] struct {
	shards *[shardCount]map[K]V
	copied [shardCount]bool
}

func (e *MapEditor[K, V]) shard(k K) map[K]V {
	i := maphash.Comparable(shardSeed, k) % shardCount
	if !e.copied[i] {
		e.copied[i] = true
		if e.shards[i] = maps.Clone(e.shards[i]); e.shards[i] == nil {
			e.shards[i] = make(map[K]V)
		}
	}
	return e.shards[i]
}

// Get returns the present value of a key, and reports whether there is one.
func (e *MapEditor[K, V]) Get(k K) (V, bool) { return e.Done().Get(k) }

// Set sets the value of a key.
func (e *MapEditor[K, V]) Set(k K, v V) { e.shard(k)[k] = v }

// Remove removes a key, which may be absent.
func (e *MapEditor[K, V]) Remove(k K) {
	if _, ok := e.Get(k); ok {
		delete(e.shard(k), k)
	}
}

// Written reports whether anything was set or removed.
func (e *MapEditor[K, V]) Written() bool { return e.copied != [shardCount]bool{} }

// Done returns the map. The editor must not be written any more.
func (e *MapEditor[K, V]) Done() ShardedMap[K, V] { return ShardedMap[K, V]{e.shards} }
