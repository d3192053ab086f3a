// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"fmt"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	const life = 10 * time.Minute
	// fill stores n new entries of a network, and returns how many were taken.
	next := uint64(0)
	fill := func(l *quota, network string, n int, now time.Time, life time.Duration) (taken int) {
		for range n {
			next++
			if l.store(next, network, now, life) {
				taken++
			}
		}
		return taken
	}
	check := func(t *testing.T, l *quota) {
		t.Helper()
		sum := 0
		for network, of := range l.accounts {
			if of.entries <= 0 || of.network != network {
				t.Errorf("the account of %s: %+v", network, of)
			}
			sum += of.entries
		}
		for i, key := range l.order {
			if l.entries[key].index != uint32(i) {
				t.Errorf("key %d of %d has the index %d", i, len(l.order), l.entries[key].index)
			}
		}
		if sum != len(l.order) || sum != len(l.entries) || sum > l.capacity {
			t.Errorf("%d entries in accounts, %d in all, room for %d", sum, len(l.entries), l.capacity)
		}
	}
	t.Run("one network alone", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		if got := fill(l, "a", 2000, begin, life); got != 500 {
			t.Errorf("%d entries, want half of 1000", got)
		}
		check(t, l)
	})
	t.Run("a network beside others", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		fill(l, "a", 2000, begin, life)
		if got := fill(l, "b", 2000, begin, life); got != 250 {
			t.Errorf("%d entries of the second network, want 250", got)
		}
		if got := fill(l, "c", 2000, begin, life); got != 250 {
			t.Errorf("%d entries of the third network, want 250", got)
		}
		check(t, l)
	})
	t.Run("all of it", func(t *testing.T) {
		l := newQuota(1000, 100, begin)
		if got := fill(l, "a", 1000, begin, life); got != 1000 {
			t.Errorf("%d entries, want 1000", got)
		}
	})
	t.Run("an entry that is there is renewed", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		first := next + 1
		fill(l, "a", 2000, begin, life)
		if !l.store(first, "a", begin.Add(life-1), life) {
			t.Error("refused")
		}
		if !l.store(first, "b", begin.Add(life), life) {
			t.Error("refused, for another network")
		}
		check(t, l)
	})
	t.Run("expired entries make room", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		first := next + 1
		fill(l, "a", 2000, begin, life)
		if fill(l, "a", 1, begin.Add(life-time.Second), life) != 0 {
			t.Error("there is room before they expire")
		}
		if fill(l, "a", 2000, begin.Add(life), life) != 500 {
			t.Error("there is no room when they have expired")
		}
		if l.store(first, "a", begin.Add(life), life) {
			t.Error("an expired entry is renewed over the share")
		}
		check(t, l)
	})
	t.Run("an entry counts for a minute", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		fill(l, "a", 2000, begin, 0)
		if got := fill(l, "a", 1, begin.Add(minCount-1), 0); got != 0 {
			t.Error("it does not")
		}
		if got := fill(l, "a", 2000, begin.Add(2*minCount), 0); got != 500 {
			t.Errorf("%d entries after a minute, want 500", got)
		}
		check(t, l)
	})
	t.Run("a sweep is short", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		fill(l, "a", 500, begin, life)
		fill(l, "b", 250, begin, 2*life)
		for n := 750; ; {
			// A network that has its share is what sweeps.
			fill(l, "b", 1, begin.Add(life), life)
			if gone := n - len(l.entries); gone > sweepEntries {
				t.Fatalf("%d of %d entries are gone", gone, n)
			}
			if n = len(l.entries); n < 500 {
				break // there is no share below half
			}
			check(t, l)
		}
	})
	t.Run("a sweep comes to all entries", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		fill(l, "b", 400, begin, 2*life)
		fill(l, "c", 200, begin, life)
		for range 600/sweepEntries + 1 {
			fill(l, "b", 1, begin.Add(life), life)
			if len(l.entries) < 500 {
				check(t, l)
				return
			}
		}
		t.Errorf("%d entries are left", len(l.entries))
	})
	t.Run("many networks", func(t *testing.T) {
		l := newQuota(1000, 25, begin)
		for i := range 5000 {
			if fill(l, fmt.Sprint(i), 1, begin, life) != 1 {
				t.Fatal("a network without entries is refused")
			}
		}
		check(t, l)
		if len(l.accounts) > 1000 {
			t.Errorf("%d accounts", len(l.accounts))
		}
	})
}

func TestVaryIndex(t *testing.T) {
	const size = 160
	x := newVaryIndex(size)
	q := func(i int) question { return question{name: fmt.Sprint(i, ".test."), qtype: 1, qclass: 1} }
	if got := x.known(q(0)).labels; got != 0 {
		t.Errorf("the empty index has %b", got)
	}
	x.add(q(0), 1)
	x.add(q(0), 4)
	if got := x.known(q(0)).labels; got != 5 {
		t.Errorf("%b, want both labels", got)
	}
	for _, other := range []question{q(1), {"0.test.", 28, 1}, {"0.test.", 1, 3}} {
		if got := x.known(other).labels; got != 0 {
			t.Errorf("%v has %b", other, got)
		}
	}
	known := 0
	for i := range 10 * size {
		x.add(q(i), mask(i+1))
		if got := x.known(q(i)).labels; got&mask(i+1) != mask(i+1) {
			t.Errorf("%d: %b has just been added", i, got)
		}
	}
	for i := range 10 * size {
		if x.known(q(i)).labels != 0 {
			known++
		}
	}
	if n := int(x.size.Load()); n != known || n > size {
		t.Errorf("%d questions are known, the size is %d, want %d at most", known, n, size)
	}
}

func TestLabelSet(t *testing.T) {
	s := newLabelSet([]string{"a/a", "a/b"})
	for i := range 2 * maxLabels {
		label := fmt.Sprint("b/", i)
		n, ok := s.number(label)
		again, okAgain := s.number(label)
		if n != again || ok != okAgain || ok != (i < maxLabels-2) || ok && (n != i+2 || s.names()[n] != label) {
			t.Errorf("label %d has number %d, %v", i, n, ok)
		}
	}
	if n, ok := s.number("a/b"); n != 1 || !ok {
		t.Errorf("a/b has number %d, %v", n, ok)
	}
}
