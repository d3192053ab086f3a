// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Flows of a closed guest lead only to each other or back to the pipeline.
func TestOfClosed(t *testing.T) {
	s := placement.Service{Neighbors: true, Addresses: []netip.AddrPort{
		netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53"),
	}}
	closed, open := placement.Key{Datapath: 5, Port: 1}, placement.Key{Datapath: 5, Port: 2}
	for _, tt := range []struct {
		name    string
		at      placement.Pipeline
		private int
	}{
		{"ovn", placement.Pipeline{Kind: placement.OVN, Table: 30}, 0},
		{"neutron", placement.Pipeline{Kind: placement.Neutron, Priority: 210}, 1},
		{"table", placement.Pipeline{Kind: placement.Table, Table: 60, Priority: 102}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.at.Kind != placement.OVN {
				closed.Datapath, open.Datapath = 0, 0
			}
			guests := map[placement.Key]bool{closed: true}
			tables := map[uint8]bool{placement.PrivateTable: true, tt.at.Table: true}
			private, lease := s.Private(tt.at)
			kept := 0
			for _, f := range append(private, lease) {
				if placement.OfClosed(&f, nil) {
					t.Errorf("%s: of no guest", f.String())
				}
				if placement.OfClosed(&f, guests) {
					kept++
					tables[f.Table] = true
				}
			}
			if kept != tt.private {
				t.Errorf("%d private flows, want %d", kept, tt.private)
			}
			for _, f := range s.OfGuest(tt.at, &placement.Guest{Key: open, Closed: true}, 9) {
				if placement.OfClosed(&f, guests) {
					t.Errorf("%s is of another guest", f.String())
				}
			}
			drops := 0
			for _, f := range s.OfGuest(tt.at, &placement.Guest{Key: closed, Closed: true}, 9) {
				if g, ok := placement.ClosedGuest(&f); ok && g == closed && len(f.Actions) == 0 {
					drops++
				}
				if is, want := placement.OfClosed(&f, guests), f.Table != placement.PuntTable; is != want {
					t.Errorf("%s: %v, want %v", f.String(), is, want)
				}
				for _, a := range f.Actions {
					if to, ok := a.(openflow.Resubmit); ok && !tables[to.Table] {
						t.Errorf("%s leads to a table without flows", f.String())
					}
				}
			}
			if drops != 1 {
				t.Errorf("%d flows drop, want one", drops)
			}
		})
	}
}
