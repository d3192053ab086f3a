// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// One entry flow counts each packet.
func TestRead(t *testing.T) {
	s := placement.Service{Neighbors: true, Addresses: []netip.AddrPort{
		netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53"),
	}}
	mac := [6]byte{2, 0, 0, 0xfe, 0, 1}
	for _, tt := range []struct {
		name   string
		at     placement.Pipeline
		guests []placement.Key
		// roles counts flows, and flows that count.
		roles map[placement.Role][2]int
	}{
		{
			"ovn", placement.Pipeline{Kind: placement.OVN, Table: 30},
			[]placement.Key{{Datapath: 1, Port: 1}, {Datapath: 1 << 23, Port: 1<<16 - 1, MAC: mac}},
			map[placement.Role][2]int{placement.RoleClosed: {1, 0}, placement.RoleLimit: {1, 0}, placement.RoleQuery: {7, 7}, placement.RoleNeighbor: {2, 2}},
		},
		{
			"neutron", placement.Pipeline{Kind: placement.Neutron, Priority: 210},
			[]placement.Key{{Port: 1}, {Port: 0xfffe, MAC: mac}},
			map[placement.Role][2]int{placement.RoleClosed: {1, 0}, placement.RoleLimit: {1, 0}, placement.RoleQuery: {6, 4}, placement.RoleNeighbor: {3, 2}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			private, lease := s.Private(tt.at)
			common := map[placement.Role]int{}
			for _, f := range append(private, lease) {
				role, key, counts := placement.Read(tt.at.Kind, statsOf(&f))
				common[role]++
				if role >= placement.RoleLimit && key == (placement.Key{}) || counts && key == (placement.Key{}) {
					t.Errorf("%s: role %d of %+v", f.String(), role, key)
				}
			}
			if common[placement.RoleLease] != 1 || common[placement.RoleOnward] != 1 {
				t.Errorf("of all guests: %v", common)
			}
			for _, key := range tt.guests {
				got := map[placement.Role][2]int{}
				for _, f := range s.OfGuest(tt.at, &placement.Guest{Key: key, Closed: true}, 9) {
					role, read, counts := placement.Read(tt.at.Kind, statsOf(&f))
					if read != key {
						t.Errorf("%s: of %+v, want %+v", f.String(), read, key)
					}
					n := got[role]
					n[0]++
					if counts {
						n[1]++
					}
					got[role] = n
				}
				if d := cmp.Diff(tt.roles, got); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func statsOf(f *openflow.FlowMod) *openflow.FlowStats {
	return &openflow.FlowStats{Table: f.Table, Priority: f.Priority, Match: f.Match}
}

func TestKeyOf(t *testing.T) {
	in := openflow.PacketIn{InPort: 7, Metadata: 5, Data: []byte{2, 0, 0, 0, 0, 0x35, 2, 0, 0, 0, 0, 1, 8, 0}}
	in.Regs[placement.RegInPort] = 3
	short := in
	short.Data = in.Data[:9]
	for _, tt := range []struct {
		name       string
		kind       placement.Kind
		in         openflow.PacketIn
		atLocalnet bool
		want       placement.Key
		ok         bool
	}{
		{"a port of a logical switch", placement.OVN, in, false, placement.Key{Datapath: 5, Port: 3}, true},
		{"an external port", placement.OVN, in, true, placement.Key{Datapath: 5, Port: 3, MAC: [6]byte{2, 0, 0, 0, 0, 1}}, true},
		{"an external port, no address", placement.OVN, short, true, placement.Key{Datapath: 5, Port: 3}, false},
		{"an interface", placement.Table, in, false, placement.Key{Port: 7}, true},
		{"an interface of Neutron's", placement.Neutron, in, false, placement.Key{Port: 7}, true},
	} {
		if got, ok := placement.KeyOf(tt.kind, &tt.in, tt.atLocalnet); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}
