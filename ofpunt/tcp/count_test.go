// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The flows that have ended stand in each of their counts in the order of their ends, whichever of them begin
// again or go, and wherever they stood.
func TestEndedFlows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	owners, all := [2]*count{{}, {}}, &count{}
	var open, ended []*flow
	take := func(from *[]*flow) *flow {
		i := random.IntN(len(*from))
		f := (*from)[i]
		*from = slices.Delete(*from, i, i+1)
		return f
	}
	for range 10000 {
		switch n := random.IntN(5); {
		case n == 0 || n == 1 && len(open) == 0:
			owner := owners[random.IntN(2)]
			f := &flow{counts: counts{ofOwner: owner, ofNetwork: all, ofAll: new(count)}}
			f.open(now)
			open = append(open, f)
		case n == 1:
			f := take(&open)
			f.end(now)
			f.end(now) // once more does nothing
			ended = append(ended, f)
		case n == 2 && len(open) > 0:
			take(&open).uncount(now)
		case n == 3 && len(ended) > 0:
			take(&ended).uncount(now)
		case n == 4 && len(ended) > 0:
			f := take(&ended)
			f.open(now)
			open = append(open, f)
		}
		// One that has gone would keep others in memory.
		for _, f := range open {
			if f.links != [3]link{} {
				t.Fatal("an open flow is linked with those that have ended")
			}
		}
		for i, c := range map[int]*count{ofOwner: owners[random.IntN(2)], ofNetwork: all} {
			var want, got []*flow
			for _, f := range ended {
				if f.counts[i] == c {
					want = append(want, f)
				}
			}
			for f := c.ended.first; f != nil; f = f.links[i].behind {
				got = append(got, f)
			}
			of := func(f *flow) bool { return f.counts[i] == c }
			isOpen := len(slices.DeleteFunc(slices.Clone(open), func(f *flow) bool { return !of(f) }))
			if !slices.Equal(got, want) || c.ended.n != len(want) || c.open != isOpen {
				t.Fatalf("count %d has %d ended flows, says %d, %d open; want %d and %d, or the order is another", i, len(got), c.ended.n, c.open, len(want), isOpen)
			}
			if len(want) > 0 && c.ended.last != want[len(want)-1] {
				t.Fatalf("count %d: another flow is the last", i)
			}
		}
	}
}
