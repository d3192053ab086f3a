// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

// table has rules' names with all ancestors, so a lookup from the root ends at the first missing name, mostly
// the second label.
//
// It is a hash table with open addressing. In the arena an ancestor is a suffix of a rule's name. The hash
// has a random key, so that a feed can't choose collisions.
type table struct {
	arena []byte
	slots []slot
	// tags has a byte of each slot's hash, 0 for free: it fits the caches, and excludes most names.
	tags []uint8
	used int
	// dead counts the arena's unused bytes, at least.
	dead int
}

type slot struct {
	at       uint32 // of the name in the arena
	children uint32 // names with one label more
	// exact is the policy of the name, wildcard of missing names below it.
	exact, wildcard Policy
}

// policy returns the wildcard's policy if without is 1.
func (s *slot) policy(without int) *Policy {
	if without == 1 {
		return &s.wildcard
	}
	return &s.exact
}

// slotSize includes the tag, in bytes.
const slotSize = 16 + 1

var hashSeed = maphash.MakeSeed()

// find returns the slot, else the free slot for the name. The table is never full.
func (t *table) find(name []byte) (at int, found bool) {
	h := maphash.Bytes(hashSeed, name)
	tag := tagOf(h)
	i, _ := bits.Mul64(h, uint64(len(t.tags)))
	for {
		switch t.tags[i] {
		case 0:
			return int(i), false
		case tag:
			if t.isAt(t.slots[i].at, name) {
				return int(i), true
			}
		}
		if i++; i == uint64(len(t.tags)) {
			i = 0
		}
	}
}

// tagOf uses bits that the place of a slot does not depend on.
func tagOf(h uint64) uint8 { return max(uint8(h>>32), 1) }

func (t *table) isAt(at uint32, name []byte) bool {
	end := int(at) + len(name)
	return end < len(t.arena) && t.arena[end] == 0 && string(t.arena[at:end]) == string(name)
}

func (t *table) nameAt(s *slot) []byte {
	end := s.at
	for t.arena[end] != 0 {
		end += 1 + uint32(t.arena[end])
	}
	return t.arena[s.at:end]
}

var errTooLarge = errors.New("the names take more than 4 GiB")

// insert returns the slot of n without its first labels, until the next call. It adds missing names.
func (t *table) insert(n *Name, without int) (*slot, error) {
	t.reserve(n.labels)
	name := n.suffix(without)
	place, found := t.find(name)
	if found {
		return &t.slots[place], nil
	}
	if len(t.arena)+len(name)+1 > math.MaxUint32 {
		return nil, errTooLarge
	}
	at := uint32(len(t.arena))
	t.arena = append(append(t.arena, name...), 0)
	t.set(place, name, slot{at: at})
	for above := without + 1; above < n.labels; above++ {
		name := n.suffix(above)
		p, found := t.find(name)
		if found {
			t.slots[p].children++
			break // its ancestors are there
		}
		t.set(p, name, slot{at: at + uint32(n.offsets[above]-n.offsets[without]), children: 1})
	}
	return &t.slots[place], nil
}

func (t *table) set(place int, name []byte, s slot) {
	t.slots[place], t.tags[place] = s, tagOf(maphash.Bytes(hashSeed, name))
	t.used++
}

// prune removes n without its first labels, and ancestors without policy and child.
func (t *table) prune(n *Name, without int) {
	removed := false
	for ; without < n.labels; without++ {
		name := n.suffix(without)
		place, found := t.find(name)
		if !found {
			return
		}
		s := &t.slots[place]
		if removed {
			s.children--
		}
		if s.children > 0 || s.exact != 0 || s.wildcard != 0 {
			return
		}
		t.remove(place)
		t.dead += len(name) + 1
		removed = true
	}
}

// remove moves slots to close the gap in searches.
func (t *table) remove(hole int) {
	n := len(t.tags)
	for i := (hole + 1) % n; t.tags[i] != 0; i = (i + 1) % n {
		hash := maphash.Bytes(hashSeed, t.nameAt(&t.slots[i]))
		home, _ := bits.Mul64(hash, uint64(n))
		if (i-int(home)+n)%n >= (i-hole+n)%n {
			t.slots[hole], t.tags[hole] = t.slots[i], t.tags[i]
			hole = i
		}
	}
	t.slots[hole], t.tags[hole] = slot{}, 0
	t.used--
}

// clone can change while t is in use. The first insertion copies the shared arena.
func (t *table) clone() table {
	c := *t
	c.arena = t.arena[:len(t.arena):len(t.arena)]
	c.slots, c.tags = slices.Clone(t.slots), slices.Clone(t.tags)
	return c
}

func (t *table) reserve(more int) {
	if need := t.used + more; need > len(t.slots)/4*3 {
		t.resize(max(2*need, 1024))
	}
}

func (t *table) resize(n int) {
	old := *t
	t.slots, t.tags, t.used = make([]slot, n), make([]uint8, n), 0
	for i := range old.slots {
		if old.tags[i] != 0 {
			name := t.nameAt(&old.slots[i])
			place, _ := t.find(name)
			t.set(place, name, old.slots[i])
		}
	}
}

// finish frees memory that lookups do not need.
func (t *table) finish() {
	t.arena = append(make([]byte, 0, len(t.arena)), t.arena...)
	t.resize(t.finishedSlots())
}

func (t *table) finishedSlots() int { return t.used + t.used/2 + 1 }

// finished returns the size in bytes after finish.
func (t *table) finished() int { return len(t.arena) + slotSize*t.finishedSlots() }

// size is in bytes.
func (t *table) size() int { return len(t.arena) + slotSize*len(t.slots) }
