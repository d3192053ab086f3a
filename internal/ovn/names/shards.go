// SPDX-License-Identifier: Apache-2.0

package names

import (
	"hash/maphash"
	"iter"
	"maps"
)

const shardCount = 256

var shardSeed = maphash.MakeSeed()

// ShardedMap is an immutable map whose versions share unchanged shards.
type ShardedMap[K comparable, V any] struct {
	shards *[shardCount]map[K]V
}

func (m ShardedMap[K, V]) Get(k K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shards[maphash.Comparable(shardSeed, k)%shardCount][k]
	return v, ok
}

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

func (m ShardedMap[K, V]) Edit() *MapEditor[K, V] {
	e := &MapEditor[K, V]{shards: new([shardCount]map[K]V)}
	if m.shards != nil {
		*e.shards = *m.shards
	}
	return e
}

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

func (e *MapEditor[K, V]) Get(k K) (V, bool) { return e.Done().Get(k) }

func (e *MapEditor[K, V]) Set(k K, v V) { e.shard(k)[k] = v }

func (e *MapEditor[K, V]) Remove(k K) {
	if _, ok := e.Get(k); ok {
		delete(e.shard(k), k)
	}
}

func (e *MapEditor[K, V]) Written() bool { return e.copied != [shardCount]bool{} }

func (e *MapEditor[K, V]) Done() ShardedMap[K, V] { return ShardedMap[K, V]{e.shards} }
