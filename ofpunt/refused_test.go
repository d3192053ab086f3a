// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// What the switch drops by rate is told of the guests by name, however they are known to it. A
// guest that has gone meanwhile is left out.
func TestRateDropped(t *testing.T) {
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{Name: "tap1", OFPort: 1, IfaceID: "p0", NetworkID: "net"}, {Name: "tap2", OFPort: 2, IfaceID: "nobody", NetworkID: "net"},
	}}, nil)
	southbound := newSouthbound(t, 2)
	byName := &server{options: bridgeOptions{Placement: placement.Table}, source: southbound.server.source}
	for _, tt := range []struct {
		name    string
		server  *server
		byGuest map[flows.GuestKey]uint64
		want    []string
	}{
		{"OVN", southbound.server, map[flows.GuestKey]uint64{{Datapath: 1, Port: 2}: 7, {Datapath: 1, Port: 99}: 8, {Datapath: 1, Port: 2, MAC: [6]byte{2}}: 9},
			[]string{`port "p1" of switch "a" was refused 7 packets over rate`}},
		{"no databases", &server{options: bridgeOptions{Placement: placement.Table}}, map[flows.GuestKey]uint64{{Port: 1}: 7, {Port: 3}: 8},
			[]string{`port "p0" of switch "net" was refused 7 packets over rate`}},
		{"interfaces and databases", byName, map[flows.GuestKey]uint64{{Port: 1}: 7, {Port: 2}: 8},
			[]string{`port "nobody" of switch "net" was refused 8 packets over rate`, `port "p0" of switch "a" was refused 7 packets over rate`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bridge{name: "br-refused", tally: metric.NewTally("br-refused")}
			b.ports.Set(view)
			b.punts = punt.NewIntake(b.puntBridge())
			t.Cleanup(b.punts.Close)
			b.current.Store(tt.server)
			b.rateDropped(tt.byGuest)
			if got := b.refusals.Lines(time.Now()); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
