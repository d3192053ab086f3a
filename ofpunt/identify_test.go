// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// The registers, the interface and the tag of a packet have to agree on one guest.
func TestIdentify(t *testing.T) {
	snapshot := snapshotOf(networkA(2))
	s := &server{options: defaultOptions("br-identify"), source: ovndb.ReaderOf(snapshot)}
	p := snapshot.PortByName("p0")
	in := &openflow.PacketIn{Metadata: uint64(p.DatapathKey)}
	in.Regs[placement.RegInPort] = p.Key
	unknown := *in
	unknown.Metadata++
	for _, tt := range []struct {
		name      string
		placement placement.Kind
		in        *openflow.PacketIn
		iface     string
		tagged    bool
		want      bool
	}{
		{"the guest", placement.OVN, in, "p0", false, true},
		{"registers of a guest that had the OpenFlow port before", placement.OVN, in, "p1", false, false},
		{"no guest has the registers", placement.OVN, &unknown, "p0", false, false},
		{"an interface of Neutron's agent", placement.Neutron, in, "p0", false, true},
		{"a container behind that interface", placement.Neutron, in, "p0", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.options.Placement = tt.placement
			g, ok := s.identify(tt.in, &vswitch.Interface{IfaceID: tt.iface}, tt.tagged)
			if ok != tt.want {
				t.Fatalf("identified: %v, as %+v", ok, g)
			}
			if ok && (g.Port != p.Name || g.Network != p.Network) {
				t.Errorf("identified as %+v", g)
			}
		})
	}
}
