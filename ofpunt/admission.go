// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"sync"
	"sync/atomic"
	"time"
)

// answerDeadline is when a query whose chain is silent gets its SERVFAIL: within
// the 5 s after which stub resolvers give up (resolv.conf(5), timeout).
const answerDeadline = 4500 * time.Millisecond

// admission holds the queries in flight on one bridge, bounded in all and by
// guest. Readers of connections admit, workers release; neither waits for the
// other. Limits stand here, before the chain, as a plugin's own
// (forward has one) is shared by all tenants.
type admission struct {
	slots []atomic.Pointer[query]
	count atomic.Int64
	// released counts the queries that left, seen those that stuck has seen.
	released, seen atomic.Int64

	// mu is the readers': a reload that changes the connection has two for a while.
	mu     sync.Mutex
	cursor int
	guests map[guestKey]*guestCount
}

// guestKey is a guest as the registers of a packet-in name it.
type guestKey struct{ datapath, port uint32 }

type guestCount struct{ n atomic.Int64 }

// maxIdleGuests is how many guests without a query are remembered before they
// are swept out.
const maxIdleGuests = 4096

func newAdmission(size int) *admission {
	return &admission{slots: make([]atomic.Pointer[query], size), guests: map[guestKey]*guestCount{}}
}

// admit takes q in, or tells which limit stands against it.
func (a *admission) admit(q *query, perGuest int) (reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count.Load() >= int64(len(a.slots)) {
		return reasonOverload
	}
	g := a.guests[q.asking]
	if g == nil {
		if len(a.guests) >= maxIdleGuests {
			a.sweep()
		}
		g = &guestCount{}
		a.guests[q.asking] = g
	}
	if g.n.Load() >= int64(perGuest) {
		return reasonPortLimit
	}
	// Slots are filled here alone and one is free, so this ends.
	for !a.slots[a.cursor].CompareAndSwap(nil, q) {
		a.cursor = (a.cursor + 1) % len(a.slots)
	}
	q.slot, q.guest = a.cursor, g
	a.cursor = (a.cursor + 1) % len(a.slots)
	g.n.Add(1)
	a.count.Add(1)
	return ""
}

// release lets q go, once.
func (a *admission) release(q *query) {
	a.slots[q.slot].Store(nil)
	q.guest.n.Add(-1)
	a.released.Add(1)
	a.count.Add(-1)
}

// stuck reports whether there is no room, and no query has left since it was
// asked last.
func (a *admission) stuck() bool {
	released := a.released.Load()
	return a.seen.Swap(released) == released && a.count.Load() >= int64(len(a.slots))
}

// sweep forgets guests without a query.
func (a *admission) sweep() {
	for k, g := range a.guests {
		if g.n.Load() == 0 {
			delete(a.guests, k)
		}
	}
}

// expire answers for the queries that arrived before t.
func (a *admission) expire(t time.Time) {
	for i := range a.slots {
		if q := a.slots[i].Load(); q != nil && q.arrived.Before(t) {
			q.expire()
		}
	}
}
