// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestOwnership(t *testing.T) {
	const delay = 5 * time.Second
	began, random := epoch.Add(time.Hour), rand.New(rand.NewPCG(1, 1))
	of := func(generation uint64) observedLease { return observedLease{true, generation} }
	gone := observedLease{}
	type look struct {
		after time.Duration
		lease observedLease
		want  verdict
	}
	tests := []struct {
		name  string
		looks []look
	}{
		{"alone", []look{{0, gone, own}, {0, of(10), own}}},
		{"its own lease flow has expired", []look{{0, of(10), own}, {time.Minute, gone, own}}},
		{"over an earlier process", []look{{0, of(9), own}}},
		{"a later process", []look{{0, of(10), own}, {0, of(11), yield}, {time.Hour, of(11), yield}}},
		{"a later process that is late to renew", []look{
			{0, of(11), yield}, {0, gone, yield}, {delay - 1, gone, yield}, {0, of(11), yield},
			{time.Hour, gone, yield}, {delay - 1, gone, yield},
		}},
		{"a later process that is dead", []look{{0, of(11), yield}, {0, gone, yield}, {delay, gone, takeOver}, {0, gone, own}}},
		{"a later process that leaves", []look{{0, of(11), yield}, {0, of(releasedGeneration), takeOver}, {0, of(releasedGeneration), own}}},
		{"an earlier one that leaves", []look{{0, of(releasedGeneration), own}}},
		// Left by a process that had not seen the later process either.
		{"an earlier one in the place of a later", []look{{0, of(11), yield}, {0, of(9), yield}, {delay, of(9), takeOver}}},
		{"two later ones", []look{{0, of(11), yield}, {0, gone, yield}, {1, of(12), yield}, {0, gone, yield}, {delay - 1, gone, yield}}},
	}
	// It came and went unseen.
	unseen := ownership{generation: 10}
	if got := unseen.step(began, gone, 11, delay, random); got != yield {
		t.Errorf("after a later process that was not seen: %v, want %v", got, yield)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			process, now, highest := ownership{generation: 10}, began, uint64(10)
			for i, l := range tt.looks {
				now, highest = now.Add(l.after), max(highest, l.lease.generation)
				if got := process.step(now, l.lease, highest, delay, random); got != l.want {
					t.Fatalf("look %d: %v, want %v", i, got, l.want)
				}
				if l.want == takeOver && process.generation <= highest {
					t.Fatalf("look %d: generation %d, which is not above all others", i, process.generation)
				}
			}
		})
	}
}

// bridgeModel is the switch's lease flow.
type bridgeModel struct {
	now     time.Time
	lease   observedLease
	until   time.Time
	highest uint64
	told    []*processModel
}

// processModel acts after a stall on what it saw.
type processModel struct {
	ownership
	wakes time.Time
	lease observedLease
	// replaced is the generation that overwrote the process's lease flow, 0 for none.
	replaced uint64
}

const modelLease = 3 * time.Second

func (b *bridgeModel) set(generation uint64) {
	for _, p := range b.told {
		if b.lease.installed && p.generation == b.lease.generation && generation != p.generation {
			p.replaced = generation
		}
	}
	b.lease, b.until = observedLease{true, generation}, b.now.Add(modelLease)
	b.highest = max(b.highest, generation)
}

// Processes that are stopped for any time restore nothing that a later one overwrote, and one has the lease flow in
// the end.
func TestOwnershipOfSlowProcesses(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &bridgeModel{now: epoch.Add(time.Hour)}
		look := func(p *processModel) {
			beat := modelLease / 3
			// As after a barrier.
			p.lease = b.lease
			switch p.step(b.now, p.lease, b.highest, takeOverDelay(beat, r), r) {
			case yield:
				return
			case takeOver:
				if p.replaced > p.generation {
					t.Fatalf("seed %d: generation %d takes over from %d", seed, p.generation, p.replaced)
				}
				p.replaced = 0
			case own:
				if p.replaced != 0 {
					t.Fatalf("seed %d: %d goes on after it was replaced by %d", seed, p.generation, p.replaced)
				}
			}
			if p.lease.installed && p.lease.generation == p.generation {
				b.set(p.generation)
				return
			}
			b.set(p.generation)
		}
		for step := range 4000 {
			b.now = b.now.Add(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
			if b.lease.installed && b.now.After(b.until) {
				b.lease = observedLease{}
			}
			if step%1000 == 0 && len(b.told) < 3 {
				b.told = append(b.told, &processModel{ownership: ownership{generation: nextGeneration(b.now, b.highest, r)}})
			}
			if r.IntN(500) == 0 {
				b.lease = observedLease{} // all flows are deleted
			}
			for _, p := range b.told {
				if b.now.Before(p.wakes) {
					continue
				}
				look(p)
				stall := time.Duration(r.Int64N(int64(time.Second)))
				if r.IntN(20) == 0 {
					stall *= 10
				}
				p.wakes = b.now.Add(stall)
			}
		}
		owners, known := 0, map[uint64]bool{}
		for _, p := range b.told {
			if known[p.generation] {
				t.Fatalf("seed %d: two processes have generation %d", seed, p.generation)
			}
			known[p.generation] = true
			if !p.yielding {
				owners++
			}
		}
		// Others may not have looked since the last change.
		if owners == 0 {
			t.Fatalf("seed %d: all yield", seed)
		}
	}
}
