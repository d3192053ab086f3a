// SPDX-License-Identifier: Apache-2.0

package spacesaving

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// streams are streams of keys, by their names.
var streams = map[string]func(r *rand.Rand, i int) uint64{
	"few":         func(r *rand.Rand, _ int) uint64 { return r.Uint64N(10) },
	"as many":     func(r *rand.Rand, _ int) uint64 { return r.Uint64N(64) },
	"zipf":        func(r *rand.Rand, _ int) uint64 { return rand.NewZipf(r, 1.2, 1, 1<<20).Uint64() },
	"uniform":     func(r *rand.Rand, _ int) uint64 { return r.Uint64N(10_000) },
	"all new":     func(_ *rand.Rand, i int) uint64 { return uint64(i) },
	"one by one":  func(_ *rand.Rand, i int) uint64 { return uint64(i) / 1000 },
	"round robin": func(_ *rand.Rand, i int) uint64 { return uint64(i) % 65 },
	"one beside a flood of new ones": func(r *rand.Rand, i int) uint64 {
		if r.IntN(20) == 0 {
			return 1 << 40
		}
		return uint64(i)
	},
}

// The bounds of the algorithm hold: counts are at most Over too high, keys without a counter are no more
// frequent than Missing, which is at most the part of one counter.
func TestBounds(t *testing.T) {
	const room, length = 64, 20_000
	for name, next := range streams {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			c, exact := New[uint64](room), map[string]uint64{}
			for i := range length {
				key := binary.BigEndian.AppendUint64(nil, next(r, i))
				exact[string(key)]++
				k, fresh := c.Add(key)
				if fresh && k.Value != 0 {
					t.Fatal("a new key has the value of another")
				}
				k.Value++
				if i%997 == 0 || i == length-1 || i == room {
					check(t, c, exact, uint64(i+1))
				}
			}
		})
	}
}

func check(t *testing.T, c *Counts[uint64], exact map[string]uint64, all uint64) {
	t.Helper()
	missing, found, last := c.Missing(), map[string]bool{}, all
	if missing > all/uint64(c.room) {
		t.Fatalf("missing %d of %d, with %d counters", missing, all, c.room)
	}
	if len(exact) <= c.room && missing != 0 {
		t.Fatalf("%d keys have counters, and some is missing %d times", len(exact), missing)
	}
	for _, k := range c.Top(c.room + 1) {
		found[k.Key] = true
		if n := exact[k.Key]; n > k.N || n < k.N-k.Over || k.N > last || k.Value != k.N-k.Over {
			t.Fatalf("%x: %d, over by %d, with value %d, behind one with %d; want %d", k.Key, k.N, k.Over, k.Value, last, n)
		}
		last = k.N
	}
	if len(found) != min(len(exact), c.room) || c.Len() != len(found) {
		t.Fatalf("%d keys, want %d", len(found), min(len(exact), c.room))
	}
	for key, n := range exact {
		if n > missing && !found[key] {
			t.Fatalf("%x was counted %d times and has no counter, though keys without one were counted %d times at most", key, n, missing)
		}
	}
}

func TestReset(t *testing.T) {
	c := New[string](2)
	for round := range 3 {
		for _, key := range []string{"a", "b", "a", "a"} {
			if k, fresh := c.Add([]byte(key)); fresh {
				if k.Value != "" {
					t.Errorf("round %d: %s has the value %q", round, key, k.Value)
				}
				k.Value = key
			}
		}
		got := ""
		for _, k := range c.Top(5) {
			got += fmt.Sprint(k.Key, k.N, k.Over, k.Value, " ")
		}
		if want := "a3 0a b1 0b "; got != want || c.Missing() != 0 {
			t.Errorf("round %d: %s, missing %d, want %s", round, got, c.Missing(), want)
		}
		if c.Reset(); c.Len() != 0 || c.Missing() != 0 || len(c.Top(5)) != 0 {
			t.Error("it has not forgotten all")
		}
	}
}

func TestTop(t *testing.T) {
	c := New[int](0)
	if k, fresh := c.Add([]byte("x")); !fresh || k.N != 1 || len(c.Top(0)) != 0 {
		t.Errorf("%+v", k)
	}
}

// To count allocates nothing for keys that have a counter.
func TestAllocations(t *testing.T) {
	c := New[int](8)
	key := []byte("a key")
	if n := testing.AllocsPerRun(100, func() { c.Add(key) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, tt := range []struct {
		name string
		keys uint64
	}{{"known", 500}, {"new", 1 << 40}} {
		b.Run(tt.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			c := New[[50]uint64](1024)
			var key [8]byte
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint64(key[:], r.Uint64N(tt.keys))
				c.Add(key[:])
			}
		})
	}
}
