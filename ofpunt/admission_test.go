// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"sync"
	"testing"
)

func TestAdmission(t *testing.T) {
	a := newAdmission(3)
	red, blue := guestKey{1, 1}, guestKey{2, 1}
	admit := func(g guestKey, want string) *query {
		t.Helper()
		q := &query{asking: g}
		if got := a.admit(q, 2); got != want {
			t.Fatalf("admit: got %q, want %q", got, want)
		}
		return q
	}
	first := admit(red, "")
	admit(red, "")
	admit(red, reasonPortLimit)
	admit(blue, "")
	admit(blue, reasonOverload)
	a.release(first)
	admit(red, "")
	admit(red, reasonOverload)
	if n := a.count.Load(); n != 3 {
		t.Errorf("%d in flight, want 3", n)
	}
}

// The reader goes on admitting while workers release, and finds every free slot.
func TestAdmissionConcurrently(t *testing.T) {
	const size = 8
	a := newAdmission(size)
	released := make(chan *query, size)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for q := range released {
				a.release(q)
			}
		})
	}
	for i := range 20000 {
		q := &query{asking: guestKey{uint32(i % 3), 0}}
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
	busy := &query{asking: guestKey{1 << 20, 0}}
	a.admit(busy, 1)
	for i := range uint32(3 * maxIdleGuests) {
		q := &query{asking: guestKey{i, 0}}
		if reason := a.admit(q, 1); reason != "" {
			t.Fatal(reason)
		}
		a.release(q)
	}
	if n := len(a.guests); n > maxIdleGuests+1 {
		t.Errorf("%d guests remembered", n)
	}
	if reason := a.admit(&query{asking: busy.asking}, 1); reason != reasonPortLimit {
		t.Errorf("a guest with a query in flight was forgotten: %q", reason)
	}
}
