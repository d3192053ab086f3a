// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func assigned(m *meters, guests ...Guest) (ids []uint32, enough bool) {
	enough = m.assign(guests)
	for _, g := range guests {
		ids = append(ids, m.assigned[g.Key])
	}
	return ids, enough
}

func limitedGuest(network, port, rate, burst uint32) Guest {
	return Guest{Guest: placement.Guest{Key: placement.Key{Datapath: network, Port: port}}, Limit: Limit{Rate: rate, Burst: burst}}
}

// A guest keeps its meter unless the switch will have none.
func TestMetersRefused(t *testing.T) {
	const most = 1 << 20
	tests := []struct {
		name         string
		err          error
		again, stays bool
	}{
		{"gone meanwhile", meterNotKnown, true, true},
		{"the switch has no more", noMoreMeters, true, false},
		{"the switch takes none of ours", meterInvalid, true, false},
		{"something else", noSuchTable, false, true},
		{"the connection is gone", errEnded, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeters(0)
			m.load(most, nil)
			guest := limitedGuest(1, 1, 10, 10)
			if ids, _ := assigned(&m, guest); ids[0] != most {
				t.Fatalf("the first guest has meter %d, want %d", ids[0], most)
			}
			if again, refused := m.blame(tt.err); again != tt.again || refused == tt.stays || m.known == tt.again {
				t.Errorf("again %v, refused %v, known %v", again, refused, m.known)
			}
			m.load(most, nil)
			want := uint32(0)
			if tt.stays {
				want = most
			}
			if ids, enough := assigned(&m, guest); ids[0] != want || !enough {
				t.Errorf("the guest has meter %d, want %d; enough %v", ids[0], want, enough)
			}
		})
	}
}

func TestMetersShort(t *testing.T) {
	m := newMeters(0)
	m.load(4, []openflow.MeterConfig{{ID: 1}, {ID: 3}})
	// 3 exists, and the lower half belongs to other programs.
	ids, enough := assigned(&m, limitedGuest(1, 0, 10, 10), limitedGuest(1, 1, 10, 10), limitedGuest(1, 2, 10, 10))
	if d := gocmp.Diff([]uint32{4, 0, 0}, ids); d != "" || enough {
		t.Errorf("enough %v, meters %s", enough, d)
	}
}

// Open vSwitch refuses ids above 0xffff0000, but reports more on some kernels.
func TestMetersOfOldKernel(t *testing.T) {
	m := newMeters(0)
	m.load(0xffffffff, nil)
	ids, _ := assigned(&m, limitedGuest(1, 0, 10, 10), limitedGuest(1, 1, 10, 10), limitedGuest(1, 2, 10, 10))
	if d := gocmp.Diff([]uint32{0xffff0000, 0xfffeffff, 0xfffefffe}, ids); d != "" {
		t.Error(d)
	}
}

func TestMetersOfNetworks(t *testing.T) {
	m := newMeters(0)
	m.load(100, nil)
	free := limitedGuest(3, 1, 0, 0)
	for _, guests := range [][]Guest{
		{limitedGuest(1, 1, 10, 10), limitedGuest(2, 1, 20, 20)},
		{limitedGuest(1, 1, 10, 10), limitedGuest(2, 1, 30, 5)},
		{limitedGuest(2, 1, 30, 5)},
	} {
		ids, _ := assigned(&m, append([]Guest{free}, guests...)...)
		if ids[0] != 0 {
			t.Errorf("a guest without a limit has meter %d", ids[0])
		}
		want := map[uint32]Limit{}
		for i, g := range guests {
			want[ids[i+1]] = g.Limit
		}
		if d := gocmp.Diff(want, m.limits); d != "" || len(m.assigned) != len(guests) {
			t.Errorf("%d guests with meters, want %d\n%s", len(m.assigned), len(guests), d)
		}
	}
}

// A meter that was made again counts anew.
func TestMetersCount(t *testing.T) {
	m := newMeters(0)
	m.load(100, nil)
	assigned(&m, limitedGuest(1, 1, 10, 10))
	for i, tt := range []struct{ dropped, want uint64 }{{5, 5}, {7, 2}, {7, 0}, {3, 0}, {4, 1}} {
		if got := m.count([]openflow.MeterStats{{ID: 100, Dropped: tt.dropped}, {ID: 7, Dropped: 1000}}); got.Packets != tt.want {
			t.Errorf("count %d: %d, want %d", i, got.Packets, tt.want)
		}
	}
}

// Guests may share a limit's name. A new name changes no meter.
func TestMetersCountByLimit(t *testing.T) {
	m := newMeters(0)
	m.load(100, nil)
	named := func(port uint32, name string) Guest {
		g := limitedGuest(1, port, 10, 10)
		g.Limit.Name = name
		return g
	}
	stats := func(each uint64) (all []openflow.MeterStats) {
		for id := uint32(97); id <= 100; id++ {
			all = append(all, openflow.MeterStats{ID: id, Dropped: each})
		}
		return all
	}
	assigned(&m, named(1, "red"), named(2, "red"), named(3, "blue"), named(4, ""))
	m.applied(m.missing())
	byGuest := func(each ...uint64) map[placement.Key]uint64 {
		all := map[placement.Key]uint64{}
		for i, n := range each {
			all[placement.Key{Datapath: 1, Port: uint32(i + 1)}] = n
		}
		return all
	}
	want := Dropped{Packets: 12, ByGuest: byGuest(3, 3, 3, 3), ByLimit: map[string]uint64{"red": 6, "blue": 3}}
	if d := gocmp.Diff(want, m.count(stats(3))); d != "" {
		t.Error(d)
	}
	assigned(&m, named(1, "red"), named(2, "blue"), named(3, "blue"), named(4, "green"))
	if mods := m.missing(); len(mods) > 0 {
		t.Errorf("other names change meters: %v", mods)
	}
	want = Dropped{Packets: 4, ByGuest: byGuest(1, 1, 1, 1), ByLimit: map[string]uint64{"red": 1, "blue": 2, "green": 1}}
	if d := gocmp.Diff(want, m.count(stats(4))); d != "" {
		t.Error(d)
	}
	if d := gocmp.Diff(Dropped{}, m.count(stats(4))); d != "" {
		t.Error(d)
	}
}
