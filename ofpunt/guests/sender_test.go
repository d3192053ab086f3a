// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// A packet's registers and interface must agree.
func TestSender(t *testing.T) {
	snapshot := ovntest.Snapshot(ovntest.NetworkA(2))
	p := snapshot.PortByName("p0")
	in := &openflow.PacketIn{InPort: 5, Metadata: uint64(p.DatapathKey)}
	in.Regs[placement.RegInPort] = p.Key
	unknown := *in
	unknown.Metadata++
	vm := vswitch.Interface{OFPort: 5, IfaceID: "p0", AttachedMAC: "02:00:00:00:00:01", Tag: 3}
	with := func(change func(*vswitch.Interface)) *vswitch.Interface {
		i := vm
		change(&i)
		return &i
	}
	for _, tt := range []struct {
		name        string
		placement   placement.Kind
		snapshot    *ovn.Snapshot
		in          *openflow.PacketIn
		owner       *vswitch.Interface
		want        bool
		mayBeTagged bool
	}{
		{"the guest", placement.OVN, snapshot, in, &vm, true, true},
		{"registers of a guest that had the OpenFlow port before", placement.OVN, snapshot, in, with(func(i *vswitch.Interface) { i.IfaceID = "p1" }), false, true},
		{"no guest has the registers", placement.OVN, snapshot, &unknown, &vm, false, true},
		{"an OpenFlow port that nobody has", placement.OVN, snapshot, in, nil, false, true},
		{"an interface of Neutron's agent", placement.Neutron, snapshot, in, &vm, true, false},
		{"an interface that the agent has cut off", placement.Neutron, snapshot, in, with(func(i *vswitch.Interface) { i.Tag = deadVLAN }), false, false},
		{"an interface of which the databases have no port", placement.Table, snapshot, in, with(func(i *vswitch.Interface) { i.IfaceID = "nobody" }), false, false},
		{"an interface without databases", placement.Table, nil, in, with(func(i *vswitch.Interface) { i.IfaceID = "nobody" }), true, true},
		{"the agent's own", placement.Table, nil, in, with(func(i *vswitch.Interface) { i.Type = "internal" }), false, true},
		{"an OpenFlow port that nobody has, without OVN", placement.Table, nil, in, nil, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, ok := At(NewRules(Config{Placement: tt.placement}), tt.snapshot, nil).Sender(tt.in, tt.owner)
			if ok != tt.want {
				t.Fatalf("known: %v, as %+v", ok, g)
			}
			if !ok {
				return
			}
			o := g.Origin(5)
			want := origin.Origin{InPort: 5, Network: p.Network, Switch: "a", Port: "p0", Attributes: p}
			if tt.snapshot == nil {
				want = origin.Origin{InPort: 5, Port: "nobody", Attributes: tt.owner}
			}
			if o != want || g.MaySendTagged() != tt.mayBeTagged {
				t.Errorf("%+v, may be tagged: %v, want %+v", o, g.MaySendTagged(), want)
			}
		})
	}
}

// At a localnet port the source address names the external port, if this chassis acts for it.
func TestSenderAtLocalnet(t *testing.T) {
	snapshot := ovntest.External("02:00:00:00:00:11 10.0.0.2", "02:00:00:00:00:12 10.0.0.3")
	at := vswitch.Interface{OFPort: 9, Localnet: "ln"}
	from := func(last byte) *openflow.PacketIn {
		in := &openflow.PacketIn{InPort: 9, Metadata: 7, Data: []byte{2, 0, 0, 0, 0, 0x35, 2, 0, 0, 0, 0, last, 8, 0}}
		in.Regs[placement.RegInPort] = 1
		return in
	}
	for _, tt := range []struct {
		name  string
		in    *openflow.PacketIn
		owner vswitch.Interface
		want  string
	}{
		{"one", from(0x11), at, "x2"},
		{"the other", from(0x12), at, "x1"},
		{"nobody's address", from(0x13), at, ""},
		{"another localnet port", from(0x11), vswitch.Interface{OFPort: 9, Localnet: "other"}, ""},
		{"no localnet port", from(0x11), vswitch.Interface{OFPort: 9, IfaceID: "x2"}, ""},
		{"no address", &openflow.PacketIn{InPort: 9, Metadata: 7, Regs: from(0x11).Regs}, at, ""},
	} {
		b := At(NewRules(Config{Placement: placement.OVN}), snapshot, nil)
		g, ok := b.Sender(tt.in, &tt.owner)
		if ok != (tt.want != "") || ok && g.Origin(9).Port != tt.want {
			t.Errorf("%s: %v, %+v, want %q", tt.name, ok, g, tt.want)
		}
		if again, known := b.ByKey(g.Key); ok && (!known || again.Port != g.Port || again.Localnet != g.Localnet) {
			t.Errorf("%s: by its key %+v", tt.name, again)
		}
	}
}
