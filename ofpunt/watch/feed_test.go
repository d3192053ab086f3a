// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Events of many goroutines arrive once each and in the order of each goroutine, or are counted as lost.
func TestRing(t *testing.T) {
	const writers, events = 4, 20_000
	for _, room := range []int{1, 3, 64, 1 << 17} {
		var feed Feed
		r := feed.listen(&Filter{}, room, nil)
		var done sync.WaitGroup
		for w := range writers {
			done.Go(func() {
				for i := range events {
					feed.Publish(&Event{Bridge: string(rune('a' + w)), Took: time.Duration(i)})
				}
			})
		}
		var ended atomic.Bool
		go func() {
			done.Wait()
			ended.Store(true)
		}()
		got, last, e := 0, map[string]time.Duration{}, Event{}
		for {
			over := ended.Load()
			if !r.ring.take(&e) {
				if over {
					break
				}
				runtime.Gosched()
				continue
			}
			got++
			if before, ok := last[e.Bridge]; ok && e.Took <= before {
				t.Fatalf("room %d: %d behind %d of %s", room, e.Took, before, e.Bridge)
			}
			last[e.Bridge] = e.Took
		}
		if _, lost := r.missed(); got+int(lost) != writers*events || room > writers*events && lost > 0 {
			t.Errorf("room %d: %d events and %d lost, want %d in all", room, got, lost, writers*events)
		}
		for i := range r.ring.slots {
			if r.ring.slots[i].event.Bridge != "" {
				t.Errorf("room %d: an event that was taken is kept", room)
			}
		}
		r.Close()
	}
}

// A full ring takes nothing, and does again once there is room.
func TestFullRing(t *testing.T) {
	r := newRing(3) // of 4
	e := Event{}
	for round := range 3 {
		for i := range 6 {
			if put := r.put(&Event{Took: time.Duration(i)}); put != (i < 4) {
				t.Errorf("round %d, event %d: %v", round, i, put)
			}
		}
		for i := range 6 {
			if took := r.take(&e); took != (i < 4) || took && e.Took != time.Duration(i) {
				t.Errorf("round %d, event %d: %v, %v", round, i, took, e.Took)
			}
		}
	}
}

// Each reader gets what it wants, and nobody is left when all have gone.
func TestFeed(t *testing.T) {
	var feed Feed
	feed.Publish(&Event{Port: "nobody listens"})
	if feed.Wanted() {
		t.Error("nobody listens")
	}
	all, red, other := feed.listen(&Filter{}, 8, nil), feed.listen(&Filter{switches: []string{"red"}}, 8, nil), feed.listen(&Filter{switches: []string{"other"}}, 8, nil)
	for _, sw := range []string{"red", "blue", "red"} {
		feed.Publish(&Event{Switch: sw})
	}
	count := func(r *Reader) (n int) {
		for e := (Event{}); r.ring.take(&e); {
			n++
		}
		return n
	}
	if a, b, c := count(all), count(red), count(other); a != 3 || b != 2 || c != 0 {
		t.Errorf("%d, %d, %d", a, b, c)
	}
	red.Close()
	feed.Publish(&Event{Switch: "red"})
	if a, b := count(all), count(red); a != 1 || b != 0 {
		t.Errorf("%d, and %d of one that has gone", a, b)
	}
	other.Close()
	if !feed.Wanted() {
		t.Error("one listens still")
	}
	all.Close()
	all.Close()
	if feed.Wanted() {
		t.Error("all have gone")
	}
}

// To publish allocates nothing, whoever listens.
func TestPublishAllocatesNothing(t *testing.T) {
	var feed Feed
	publish := func() {
		e := Event{Port: "a"}
		feed.Publish(&e)
	}
	if n := testing.AllocsPerRun(100, publish); n > 0 {
		t.Errorf("%v allocations while nobody listens", n)
	}
	defer feed.listen(&Filter{}, 4, nil).Close()
	defer feed.listen(&Filter{ports: []string{"b"}}, 4, nil).Close()
	defer feed.listen(&Filter{}, 4, newLimiter(1, noon)).Close()
	if n := testing.AllocsPerRun(100, publish); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// In no second is more let through than the rate, but for what two windows share, and all of it if it is
// asked for evenly.
func TestLimiter(t *testing.T) {
	for _, tt := range []struct{ rate, asked int }{{1, 100}, {7, 100}, {19, 1000}, {20, 1000}, {21, 1000}, {39, 1000}, {59, 1000}, {1009, 100_000}, {1000, 100_000}, {1000, 999}, {10_000, 20_000}} {
		l, passed := newLimiter(tt.rate, noon), 0
		const seconds = 20
		for i := range seconds * tt.asked {
			if l.allows(noon.Add(time.Duration(i) * time.Second / time.Duration(tt.asked))) {
				passed++
			}
		}
		// The last window may have let through all of its own and not be over.
		if want := min(tt.rate, tt.asked) * seconds; passed > want+tt.rate/20 || passed < want*9/10 {
			t.Errorf("%d of %d a second, limited to %d a second", passed/seconds, tt.asked, tt.rate)
		}
	}
	l := newLimiter(1, noon)
	for _, tt := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {time.Millisecond, false}, {1100 * time.Millisecond, true}, {time.Millisecond, false}, {1200 * time.Millisecond, false}, {time.Hour, true}, {-time.Hour, false}} {
		if got := l.allows(noon.Add(tt.at)); got != tt.want {
			t.Errorf("at %s: %v", tt.at, got)
		}
	}
}
