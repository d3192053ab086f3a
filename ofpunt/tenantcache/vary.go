// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

type question struct {
	name          string // in lower case
	qtype, qclass uint16
}

// varyIndex records which labels the plugins below *cache* read for a question, like Vary (RFC 9111, section 4.1).
// It may forget any question, see the package comment.
type varyIndex struct {
	// An empty index needs no lock.
	size   atomic.Int64
	most   int // questions of a shard
	seed   maphash.Seed
	shards [varyShards]varyShard
}

const varyShards = 16

type varyShard struct {
	mu   sync.RWMutex
	read map[question]varyEntry // guarded by mu
}

type varyEntry struct {
	labels mask
	// changes once an answer in *cache* is invalid
	generation uint32
}

func newVaryIndex(size int) *varyIndex {
	x := &varyIndex{most: max(1, size/varyShards), seed: maphash.MakeSeed()}
	for i := range x.shards {
		x.shards[i].read = map[question]varyEntry{}
	}
	return x
}

func (x *varyIndex) shard(q question) *varyShard {
	return &x.shards[maphash.String(x.seed, q.name)%varyShards]
}

// q is in lower case.
func (x *varyIndex) known(q question) varyEntry {
	if x.size.Load() == 0 {
		return varyEntry{}
	}
	s := x.shard(q)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read[q]
}

func (x *varyIndex) add(q question, labels mask) {
	x.change(q, func(k *varyEntry) { k.labels |= labels })
}

func (x *varyIndex) supersede(q question) {
	x.change(q, func(k *varyEntry) { k.generation++ })
}

func (x *varyIndex) change(q question, change func(*varyEntry)) {
	s := x.shard(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.read[q]
	if !ok {
		if len(s.read) >= x.most {
			for victim := range s.read {
				delete(s.read, victim)
				x.size.Add(-1)
				break
			}
		}
		x.size.Add(1)
	}
	change(&k)
	s.read[q] = k
}
