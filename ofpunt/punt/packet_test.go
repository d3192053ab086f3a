// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// The limits are for a guest. Those that come by a localnet port have its keys in common, and
// each has limits of its own; what a guest's own port brings is that guest's, from whatever
// address it says.
func TestAccountOfPacket(t *testing.T) {
	const tap, localnet = 5, 6
	in := newIntake(Bridge{Name: bridgeName, Tally: metric.NewTally(bridgeName), Ports: new(ports.Owners)}, nil)
	defer in.Close()
	in.bridge.Ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{UUID: "a", Name: "tap", OFPort: tap, IfaceID: "vm"},
		{UUID: "b", Name: "patch", OFPort: localnet, Localnet: "net"},
	}}, nil))
	s := NewServer(Config{Guests: guests.NewRules(guests.Config{Placement: placement.OVN}), Snapshot: func() *ovn.Snapshot { return new(ovn.Snapshot) }})
	guest := func(inPort, datapath, port uint32, mac byte) account {
		frame := make([]byte, 60)
		frame[11] = mac
		m := &openflow.PacketIn{InPort: inPort, Metadata: uint64(datapath), Data: frame}
		m.Regs[placement.RegInPort] = port
		var p packet
		p.init(&Channel{intake: in}, s, m, placement.Nowhere)
		return p.account
	}
	tests := []struct {
		name string
		a, b account
		same bool
	}{
		{"a guest, from two addresses", guest(tap, 1, 2, 1), guest(tap, 1, 2, 2), true},
		{"two guests", guest(tap, 1, 2, 1), guest(tap, 1, 3, 1), false},
		{"a host by a localnet port", guest(localnet, 1, 2, 1), guest(localnet, 1, 2, 1), true},
		{"two hosts", guest(localnet, 1, 2, 1), guest(localnet, 1, 2, 2), false},
		{"by two localnet ports", guest(localnet, 1, 2, 1), guest(localnet, 1, 3, 1), false},
		{"of two networks", guest(localnet, 1, 2, 1), guest(localnet, 2, 2, 1), false},
	}
	for _, tt := range tests {
		if (tt.a == tt.b) != tt.same {
			t.Errorf("%s: %v and %v, the same: want %v", tt.name, tt.a, tt.b, tt.same)
		}
	}
}
