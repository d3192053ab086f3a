// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

func manyGuests(n int) *Want {
	w := &Want{
		Settled: true, Kind: placement.OVN, Heartbeat: 5 * time.Second, Limited: true, Stage: Stage{TableID: 22, Cookies: []uint32{0xaa}},
		Service: placement.Service{
			Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53")},
			Neighbors: true, ControllerID: 77, Lease: 15,
		},
	}
	for i := range n {
		w.Guests = append(w.Guests, Guest{Guest: placement.Guest{Key: placement.Key{Datapath: 1, Port: uint32(i + 1)}}, Limit: Limit{Rate: 1024, Burst: 64}})
	}
	return w
}

func placedGuests(t testing.TB, n int) (*process, *Want) {
	sw := newFakeSwitch(epoch.Add(time.Hour))
	p := &process{random: rand.New(rand.NewPCG(1, 1))}
	p.connect(sw)
	s := script{sw: sw}
	s.run([]string{"ovn", "30", "0xaa"})
	w := manyGuests(n)
	p.step(Desired{w})
	p.rest()
	if p.machine.status != serving {
		t.Fatalf("status %v", p.machine.status)
	}
	return p, w
}

// Only changed guests are planned.
func TestPlanned(t *testing.T) {
	p, w := placedGuests(t, 10)
	if got := p.machine.plan.planned; got != 10 {
		t.Errorf("%d guests were planned at first", got)
	}
	for _, tt := range []struct {
		name   string
		change func(*Want)
		want   int
	}{
		{"nothing", func(*Want) {}, 0},
		{"the list is another, with the same guests", func(w *Want) { w.Guests = slices.Clone(w.Guests) }, 0},
		{"addresses of one guest", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			w.Guests[3].Addresses = []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:53")}
		}, 1},
		{"other words, the same service", func(w *Want) { w.Service.Addresses = slices.Clone(w.Service.Addresses) }, 0},
		{"settled", func(w *Want) { w.Settled = false }, 0},
		{"a guest less", func(w *Want) { w.Guests = w.Guests[1:] }, 0},
		{"another order", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			slices.Reverse(w.Guests)
		}, 0},
		{"a guest more", func(w *Want) {
			w.Guests = append(slices.Clone(w.Guests), Guest{Guest: placement.Guest{Key: placement.Key{Datapath: 2, Port: 7}}})
		}, 1},
		{"an address of a guest's network", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			w.Guests[3].Owned = []netip.Addr{w.Service.Addresses[0].Addr()}
		}, 1},
		{"a resolver address that a workload has", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			w.Guests[3].Left = []netip.Addr{w.Service.Addresses[0].Addr()}
		}, 1},
		{"a guest that fails closed", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			w.Guests[3].Closed = true
		}, 1},
		{"another limit", func(w *Want) {
			w.Guests = slices.Clone(w.Guests)
			w.Guests[3].Limit.Rate = 7
		}, 1},
		{"a guest twice", func(w *Want) { w.Guests = append(slices.Clone(w.Guests), w.Guests[0]) }, 0},
		{"another lease", func(w *Want) { w.Service.Lease = 30 }, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := placedGuests(t, 10)
			next := *w
			tt.change(&next)
			p.step(Desired{&next})
			p.rest()
			if got := p.machine.plan.planned - 10; got != tt.want {
				t.Errorf("%d guests were planned, want %d", got, tt.want)
			}
		})
	}
}

// BenchmarkRecordChanged changes no flow.
func BenchmarkRecordChanged(b *testing.B) {
	for _, n := range []int{20, 1000} {
		p, w := placedGuests(b, n)
		for name, guests := range map[string][]Guest{"same list": w.Guests, "listed anew": slices.Clone(w.Guests)} {
			b.Run(fmt.Sprintf("%d guests, %s", n, name), func(b *testing.B) {
				lists := [2][]Guest{w.Guests, guests}
				i := 0
				for b.Loop() {
					next := *w
					next.Guests = lists[i%2]
					i++
					if c := p.machine.step(p.sw.now, Desired{&next}); len(c) > 0 {
						b.Fatalf("%v", c)
					}
				}
			})
		}
	}
}

// BenchmarkGuestChanged adds and removes a guest.
func BenchmarkGuestChanged(b *testing.B) {
	for _, n := range []int{20, 1000} {
		p, w := placedGuests(b, n)
		b.Run(fmt.Sprintf("%d guests", n), func(b *testing.B) {
			more := *w
			more.Guests = append(slices.Clone(w.Guests), Guest{Guest: placement.Guest{Key: placement.Key{Datapath: 2, Port: 7}}})
			for b.Loop() {
				for _, w := range []*Want{&more, w} {
					p.step(Desired{w})
					p.rest()
				}
			}
		})
	}
}
