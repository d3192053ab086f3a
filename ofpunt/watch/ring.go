// SPDX-License-Identifier: Apache-2.0

package watch

import "sync/atomic"

// ring has events on their way from any number of goroutines to one. Neither end takes a lock: a
// goroutine that is stopped in put or take keeps no other one from put. It is the bounded queue of
// Dmitry Vyukov (1024cores.net) with one consumer.
type ring struct {
	slots []slot
	// mask has the bits of an index: there are a power of two slots.
	mask uint64
	_    [64]byte // the fields around it are of different writers
	// head is the turn of the next event.
	head atomic.Uint64
	_    [64]byte
	// tail is the turn of the next event to be taken. The consumer alone uses it.
	tail uint64
}

// slot has room for an event. In turn n of the ring its turn is n while it is free, n+1 while it has an
// event, and then the turn of its next use.
type slot struct {
	turn  atomic.Uint64
	event Event
}

// newRing returns a ring with room for so many events, rounded up to a power of two from 2 on: with one
// slot, the turns of an event and of the next free slot would be the same.
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

// put adds a copy of an event. It reports whether there was room.
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
			return false // the event of the turn before is still there
		}
	}
}

// take moves the oldest event to e. It reports whether there was one. One that is being put keeps those
// behind it waiting.
func (r *ring) take(e *Event) bool {
	s := &r.slots[r.tail&r.mask]
	if s.turn.Load() != r.tail+1 {
		return false
	}
	*e, s.event = s.event, Event{} // what it refers to is not kept
	s.turn.Store(r.tail + uint64(len(r.slots)))
	r.tail++
	return true
}
