// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func TestLocalGuests(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	tests := []struct {
		name           string
		port           vswitch.Interface
		neutron, table bool
	}{
		{"bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5}, true, true},
		{"not bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac}, false, true},
		{"cut off", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 4095}, false, false},
		{"no number yet", vswitch.Interface{IfaceID: "lp", AttachedMAC: mac, Tag: 5}, false, false},
		{"no logical port", vswitch.Interface{OFPort: 1, AttachedMAC: mac, Tag: 5}, false, false},
		{"no MAC", vswitch.Interface{OFPort: 1, IfaceID: "lp", Tag: 5}, false, true},
		{"MAC of another length", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: "02:00:00:00:00:01:02:03", Tag: 5}, false, true},
		// Neutron agents' interfaces, and lookalikes.
		{"an agent's", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5, Type: "internal"}, false, false},
		{"a machine's", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5, Type: "internal", Machine: "vm"}, true, true},
		{"an internal one, not of Neutron's", vswitch.Interface{OFPort: 1, IfaceID: "lp", Type: "internal"}, false, true},
		{"a subport of a trunk", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5, Type: "patch"}, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{tt.port}}, nil)
			for kind, want := range map[placement.Kind]bool{placement.Neutron: tt.neutron, placement.Table: tt.table} {
				got := At(NewRules(Config{Placement: kind}), nil, view).List().Served
				if (len(got) == 1) != want {
					t.Errorf("%s: guests %v, want one: %v", kind, got, want)
				}
			}
		})
	}
}

// A Neutron agent may have the metadata addresses of its network.
func TestLocalOwned(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	agent := vswitch.Interface{OFPort: 9, IfaceID: "dhcp", AttachedMAC: mac, Tag: 5, NetworkID: "net", Type: "internal"}
	with := func(change func(*vswitch.Interface)) vswitch.Interface {
		i := agent
		change(&i)
		return i
	}
	tests := []struct {
		name  string
		agent vswitch.Interface
		guest vswitch.Interface
		want  bool
	}{
		{"the same network", agent, vswitch.Interface{Tag: 5, NetworkID: "net"}, true},
		{"the same network by its id", with(func(i *vswitch.Interface) { i.Tag = 0 }), vswitch.Interface{Tag: 6, NetworkID: "net"}, true},
		{"the same network by its VLAN", with(func(i *vswitch.Interface) { i.NetworkID = "" }), vswitch.Interface{Tag: 5}, true},
		{"another network", agent, vswitch.Interface{Tag: 6, NetworkID: "other"}, false},
		{"networks that are not known", with(func(i *vswitch.Interface) { i.Tag, i.NetworkID = 0, "" }), vswitch.Interface{}, false},
		{"an agent that is cut off", with(func(i *vswitch.Interface) { i.Tag, i.NetworkID = deadVLAN, "" }), vswitch.Interface{Tag: 5}, false},
		{"a machine", with(func(i *vswitch.Interface) { i.Machine = "vm" }), vswitch.Interface{Tag: 5, NetworkID: "net"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := tt.guest
			g.Name, g.OFPort, g.IfaceID, g.AttachedMAC = "guest", 1, "lp", mac
			view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{g, tt.agent}}, nil)
			c := Config{Placement: placement.Table}
			owned := map[string]bool{"169.254.169.254": tt.want, "fe80::a9fe:a9fe": tt.want, "fd00::254": false}
			for a := range owned {
				c.Resolvers = append(c.Resolvers, netip.AddrPortFrom(netip.MustParseAddr(a), 53))
			}
			for _, l := range At(NewRules(c), nil, view).List().Served {
				if l.Port != 1 {
					continue
				}
				for a, want := range owned {
					if got := slices.Contains(l.Owned, netip.MustParseAddr(a)); got != want {
						t.Errorf("%s: %v, want %v", a, got, want)
					}
				}
			}
		})
	}
}

// The switch takes external ports with one MAC address for one guest.
func TestExternalGuestsSameMAC(t *testing.T) {
	const mac = "02:00:00:00:00:11 10.0.0.2"
	snapshot := ovntest.External(mac, mac, mac)
	guests := At(NewRules(Config{Placement: placement.OVN}), snapshot, nil).List().Served
	want := placement.Key{Datapath: 7, Port: 1, MAC: [6]byte{2, 0, 0, 0, 0, 0x11}}
	if len(guests) != 1 || guests[0].Key != want {
		t.Errorf("guests %+v, want one with %+v", guests, want)
	}
}

// An external port counts once, despite many MAC addresses.
func TestExternalGuestWithoutAddress(t *testing.T) {
	snapshot := ovntest.External("02:00:00:00:00:11 10.0.0.2 02:00:00:00:00:12 10.0.0.3", "02:00:00:00:00:13 10.0.0.4")
	c := Config{Placement: placement.OVN}
	if guests := At(NewRules(c), snapshot, nil).List().Served; len(guests) != 3 {
		t.Fatalf("guests %+v, want three", guests)
	}
	c.Gateways = true
	l := At(NewRules(c), snapshot, nil).List()
	guests, without := l.Served, l.Without
	if len(guests) != 0 || len(without) != 1 {
		t.Fatalf("guests %+v, and without addresses %v", guests, without)
	}
	for network, n := range without {
		if n.Guests != 2 {
			t.Errorf("%d in %s, want the two ports", n.Guests, network)
		}
	}
}

func TestAddressOf(t *testing.T) {
	addrs := func(all ...string) (out []netip.Addr) {
		for _, a := range all {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	p := &ovn.Port{LogicalPort: &ovn.LogicalPort{Addresses: addrs("10.0.0.53", "fd00::53")}}
	tests := []struct {
		name  string
		p     *ovn.Port
		among []netip.Addr
		want  string
	}{
		{"IPv4", p, addrs("9.9.9.9", "10.0.0.53"), "10.0.0.53"},
		{"IPv6", p, addrs("fd00::53"), "fd00::53"},
		{"others", p, addrs("9.9.9.9"), "invalid IP"},
		{"none", p, nil, "invalid IP"},
		{"a port that is not known", nil, addrs("10.0.0.53"), "invalid IP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, ok := AddressOf(tt.p, tt.among)
			if a.String() != tt.want || ok != a.IsValid() {
				t.Errorf("got %s, %v, want %s", a, ok, tt.want)
			}
		})
	}
}
