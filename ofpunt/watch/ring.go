// SPDX-License-Identifier: Apache-2.0

package watch

import "sync/atomic"

// ring is Dmitry Vyukov's bounded queue (1024cores.net) with many producers and one consumer. It has no lock: a
// goroutine stopped in put or take does not block put.
type ring struct {
	slots []slot
	// slots, a power of two, minus one
	mask uint64
	_    [64]byte // separates fields of different writers
	// turn of the next event
	head atomic.Uint64
	_    [64]byte
	// turn of the next event to take; for the consumer only
	tail uint64
}

// In turn n of the ring a slot's turn is n while free, n+1 with an event, then the turn of its next use.
type slot struct {
	turn  atomic.Uint64
	event Event
}

// newRing rounds room up to a power of two from 2 on: with one slot, the turns of an event and of the next free
// slot would be equal.
func newRing(room int) *ring {
	size := 2
	for size < room {
		size *= 2
	}
	r := &ring{slots: make([]slot, size), mask: uint64(size - 1)}
	for i := range r.slots {
		r.slots[i].turn.Store(uint64(i))
	}
	return r
}

// put reports false without room.
func (r *ring) put(e *Event) bool {
	for {
		n := r.head.Load()
		s := &r.slots[n&r.mask]
		switch ahead := int64(s.turn.Load() - n); {
		case ahead == 0 && r.head.CompareAndSwap(n, n+1):
			s.event = *e
			s.turn.Store(n + 1)
			return true
		case ahead < 0:
			return false // full
		}
	}
}

// take reports whether there was an event. An unfinished put delays later events.
func (r *ring) take(e *Event) bool {
	s := &r.slots[r.tail&r.mask]
	if s.turn.Load() != r.tail+1 {
		return false
	}
	*e, s.event = s.event, Event{} // drops references
	s.turn.Store(r.tail + uint64(len(r.slots)))
	r.tail++
	return true
}
