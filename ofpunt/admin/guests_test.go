// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// A code shows guests that lack only a resolver address.
func TestListAddressless(t *testing.T) {
	o := config.Default("br-tenants")
	o.Placement, o.Resolvers, o.DHCP = placement.Table, nil, true
	red, bare := ovntest.NetworkA(2), ovn.PortsData{Network: origin.Network{0x22}, Switch: "bare"}
	for i := range red.Ports {
		red.Ports[i].DNSServers = []netip.Addr{netip.MustParseAddr("9.9.9.9")}
	}
	bare.Ports = append(bare.Ports, ovntest.Port("b0", 1, "02:00:00:00:00:02 10.2.0.1"))
	var local vswitch.View
	for i, name := range []string{"p0", "p1", "b0"} {
		local.Interfaces = append(local.Interfaces, vswitch.Interface{UUID: name, Name: "tap-" + name, IfaceID: name, OFPort: uint32(i + 1)})
	}
	srv := bridge.ServerOf(o, ovndb.ReaderOf(ovntest.Snapshot(red, bare)))
	session := &bridge.SessionState{NotHere: map[string]string{"p1": "some other reason"}}
	l := newGuestLister(nil, &bridge.State{Name: "br-tenants", Server: srv, Session: session, View: ports.NewView(local, nil)}, srv)
	var out api.Guests
	l.listUnserved(map[string][]string{"p0": {"tap-p0"}}, &out)
	got := map[string]string{}
	for _, u := range out.Unserved {
		got[u.Port] = u.Code
	}
	if want := map[string]string{"p1": "", "b0": api.CodeNoAddress}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
