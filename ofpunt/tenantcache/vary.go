// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// question is what labels are known of.
type question struct {
	name          string // in lower case
	qtype, qclass uint16
}

// varyIndex remembers which labels the plugins below *cache* have read for a question, as an
// HTTP cache remembers Vary (RFC 9111, section 4.1). It is bounded: it forgets a question at
// random for a new one. That is safe, see the comment of the package.
type varyIndex struct {
	// size is the number of questions, so that an empty index costs no lock.
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

// varyEntry is what the answers to one question depend on.
type varyEntry struct {
	labels mask
	// generation is another one once an answer that may be in *cache* no longer holds.
	generation uint32
}

// newVaryIndex returns an index of that many questions.
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

// known returns the varyEntry of q, which is in lower case.
func (x *varyIndex) known(q question) varyEntry {
	if x.size.Load() == 0 {
		return varyEntry{}
	}
	s := x.shard(q)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read[q]
}

// add remembers that labels have been read for q.
func (x *varyIndex) add(q question, labels mask) {
	x.change(q, func(k *varyEntry) { k.labels |= labels })
}

// supersede begins another generation of q.
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
