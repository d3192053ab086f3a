// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func TestWhyNot(t *testing.T) {
	red := ovn.PortsData{Network: origin.Network{0x11}, Switch: "red", Ports: []ovn.PortData{ovntest.Port("vm", 1, "02:00:00:00:00:02 10.0.0.1"), {LogicalPort: &ovn.LogicalPort{Name: "other", Key: 2}}}}
	type iface = vswitch.Interface
	seen := map[Code]bool{}
	for _, tt := range []struct {
		name  string
		kind  placement.Kind
		iface iface
		known Known
		dhcp  bool
		want  Code
	}{
		{"a tunnel", placement.OVN, iface{Name: "genev", Type: "geneve"}, Known{}, false, NoGuest},
		{"the bridge itself", placement.OVN, iface{Name: "br-int"}, Known{}, false, NoGuest},
		{"no iface-id", placement.OVN, iface{OFPort: 5}, Known{}, false, NoIfaceID},
		{"no device", placement.OVN, iface{IfaceID: "vm"}, Known{}, false, NoOFPort},
		{"in the databases", placement.OVN, iface{IfaceID: "vm", OFPort: 5}, Known{}, false, PluggedNow},
		{"bound elsewhere", placement.OVN, iface{IfaceID: "other", OFPort: 5}, Known{NotHere: map[string]string{"other": "it is bound to chassis \"b\""}}, false, NotHere},
		{"without a resolver address", placement.OVN, iface{IfaceID: "vm", OFPort: 5}, Known{}, true, NoResolver},
		{"saved, not confirmed", placement.OVN, iface{IfaceID: "other", OFPort: 5}, Known{Unconfirmed: true}, false, Unconfirmed},
		{"a localport", placement.OVN, iface{IfaceID: "meta", OFPort: 5}, Known{NotHere: map[string]string{"meta": ""}}, false, OtherType},
		{"an iface-id of two", placement.OVN, iface{IfaceID: "vm", OFPort: 5}, Known{Served: map[string][]string{"vm": {"tap1"}}}, false, IfaceIDTwice},
		{"not read yet", placement.OVN, iface{IfaceID: "meta", OFPort: 5}, Known{}, false, NotRead},
		{"a router of Neutron's", placement.Neutron, iface{Name: "qr-1", Type: "internal", IfaceID: "qr-1", AttachedMAC: "02:00:00:00:00:01", OFPort: 5}, Known{}, false, OfNeutron},
		{"the dead VLAN", placement.Table, iface{IfaceID: "vm", OFPort: 5, Tag: 4095}, Known{}, false, DeadVLAN},
		{"no tag", placement.Neutron, iface{IfaceID: "vm", OFPort: 5}, Known{}, false, NoTag},
		{"no MAC", placement.Neutron, iface{IfaceID: "vm", OFPort: 5, Tag: 3}, Known{}, false, NoAttachedMAC},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.known.Bridge = "br-int"
			book := At(NewRules(Config{Placement: tt.kind, DHCP: tt.dhcp}), ovntest.Snapshot(red), ports.NewView(vswitch.View{}, nil))
			if got := book.WhyNot(&tt.iface, &tt.known); got.Code != tt.want {
				t.Errorf("%s (%s), want %s", got.Code, got.Text(), tt.want)
			}
		})
		seen[tt.want] = true
	}
	for code := range reasons {
		if !seen[code] {
			t.Errorf("no case gives the reason %s", code)
		}
	}
}
