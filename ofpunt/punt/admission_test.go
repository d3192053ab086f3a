// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// One guest has its limit, and one network never more than it leaves free: whoever
// comes next finds room, however many guests of one tenant ask.
func TestAdmission(t *testing.T) {
	a := newAdmission(8)
	red1, red2, blue, green := accountAt(1, 1), accountAt(1, 2), accountAt(2, 1), accountAt(3, 1)
	var first *Exchange
	for i, step := range []struct {
		guest account
		want  string
	}{
		{red1, ""}, {red1, ""}, {red1, ""},
		{red1, metric.ReasonPortLimit},
		{red2, ""},
		{red2, metric.ReasonOverload}, // four of eight
		{blue, ""}, {blue, ""},
		{blue, metric.ReasonOverload}, // two of four
		{green, ""},
		{green, metric.ReasonOverload},
	} {
		q := ofGuest(step.guest)
		if got := a.admit(q, 3); got != step.want {
			t.Fatalf("step %d: %q, want %q", i, got, step.want)
		}
		if first == nil {
			first = q
		}
	}
	a.release(first)
	if got := a.admit(ofGuest(red1), 3); got != metric.ReasonOverload {
		t.Errorf("red again: %q", got)
	}
	if got := a.admit(ofGuest(green), 3); got != "" {
		t.Errorf("green in the place of red: %q", got)
	}
	if n := a.count.Load(); n != 7 {
		t.Errorf("%d in flight, want 7", n)
	}
}

// Chains are stuck when queries are rejected and none leaves a chain, for longer than a
// query may take; not while queries end, nor when nobody asks.
func TestStuck(t *testing.T) {
	now := time.Now()
	later := now.Add(stuckTime + time.Second)
	full := func() (*admission, *Exchange) {
		a := newAdmission(2)
		q := ofGuest(account{})
		q.ready.Store(true)
		if a.admit(q, 1) != "" || a.admit(ofGuest(account{}), 1) == "" {
			t.Fatal("not full")
		}
		a.watch(now)
		return a, q
	}
	for _, tt := range []struct {
		name string
		do   func(a *admission, q *Exchange)
		want bool
	}{
		{"nothing leaves", func(a *admission, _ *Exchange) { a.watch(later) }, true},
		{"one has left", func(a *admission, q *Exchange) { a.release(q); a.watch(later) }, false},
		{"what was for no chain has left", func(a *admission, q *Exchange) {
			arp := ofGuest(accountAt(2, 1))
			a.admit(arp, 1)
			a.release(arp)
			a.watch(later)
		}, true},
		{"one has left, and the place is taken again", func(a *admission, q *Exchange) {
			a.release(q)
			a.admit(ofGuest(account{}), 1)
			a.admit(ofGuest(account{}), 1)
			a.watch(later)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, q := full()
			if a.stuck(now.Add(stuckTime / 2)) {
				t.Error("stuck before its time")
			}
			tt.do(a, q)
			if got := a.stuck(later); got != tt.want {
				t.Errorf("stuck: %v, want %v", got, tt.want)
			}
		})
	}
	a := newAdmission(2)
	a.admit(ofGuest(account{}), 1)
	if a.stuck(later) {
		t.Error("stuck without having turned a query away")
	}
	one := &guests.Limit{Name: "one", Concurrent: 1, ConcurrentGuest: 1}
	for _, guest := range []uint32{1, 1, 2} {
		x := ofGuest(accountAt(1, guest))
		x.from.limit = one
		a.admit(x, 1)
	}
	if a.stuck(later) {
		t.Error("stuck with a guest that has reached its own limit")
	}
}

// The reader goes on admitting while workers release, and finds every free slot.
func TestAdmissionConcurrently(t *testing.T) {
	const size = 8
	a := newAdmission(size)
	released := make(chan *Exchange, size)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for q := range released {
				a.release(q)
			}
		})
	}
	for i := range 20000 {
		q := ofGuest(accountAt(uint32(i%3), 0))
		for a.admit(q, size) != "" {
			continue
		}
		released <- q
	}
	close(released)
	workers.Wait()
	if n := a.count.Load(); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
	for i := range a.slots {
		if a.slots[i].Load() != nil {
			t.Errorf("slot %d is taken at the end", i)
		}
	}
}

func TestAdmissionForgetsIdleGuests(t *testing.T) {
	a := newAdmission(4)
	busy := ofGuest(accountAt(1<<20, 0))
	a.admit(busy, 1)
	for i := range uint32(3 * maxIdleGuests) {
		q := ofGuest(accountAt(i, 0))
		if reason := a.admit(q, 1); reason != "" {
			t.Fatal(reason)
		}
		a.release(q)
	}
	if n := len(a.counts.guests); n > maxIdleGuests+1 {
		t.Errorf("%d guests remembered", n)
	}
	if reason := a.admit(ofGuest(busy.from.account), 1); reason != metric.ReasonPortLimit {
		t.Errorf("a guest with a query in flight was forgotten: %q", reason)
	}
}
