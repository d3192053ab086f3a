// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

func TestRateDropped(t *testing.T) {
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{Name: "tap1", OFPort: 1, IfaceID: "p0", NetworkID: "net"}, {Name: "tap2", OFPort: 2, IfaceID: "nobody", NetworkID: "net"},
	}}, nil)
	of := func(kind placement.Kind, snapshot *ovn.Snapshot) *Server {
		return newTestServer(config.Bridge{Config: guests.Config{Placement: kind}}, snapshot)
	}
	snapshot := ovntest.Snapshot(ovntest.NetworkA(2))
	for _, tt := range []struct {
		name    string
		server  *Server
		byGuest map[placement.Key]uint64
		want    []string
	}{
		{"OVN", of(placement.OVN, snapshot), map[placement.Key]uint64{{Datapath: 1, Port: 2}: 7, {Datapath: 1, Port: 99}: 8, {Datapath: 1, Port: 2, MAC: [6]byte{2}}: 9},
			[]string{`"p1" "a" 7 rate`}},
		{"no databases", of(placement.Table, nil), map[placement.Key]uint64{{Port: 1}: 7, {Port: 3}: 8},
			[]string{`"p0" "net" 7 rate`}},
		{"interfaces and databases", of(placement.Table, snapshot), map[placement.Key]uint64{{Port: 1}: 7, {Port: 2}: 8},
			[]string{`"p0" "a" 7 rate`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &Bridge{name: "br-refused", accepted: new(acceptedConns), tally: metric.NewTally("br-refused")}
			b.ports.Set(view)
			b.punts = punt.NewIntake(b.puntBridge())
			t.Cleanup(b.punts.Close)
			b.current.Store(tt.server)
			b.rateDropped(tt.byGuest)
			var got []string
			for _, line := range b.refusals.Lines(time.Now()) {
				got = append(got, strings.Join(regexp.MustCompile(`"\w+"|\d+|rate$`).FindAllString(line, -1), " "))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
