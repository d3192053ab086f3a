// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// tenants is a server that has the networks of two tenants, red and blue, with the same addresses and DHCP
// options, and a third one that has neither.
type tenants struct {
	t               *testing.T
	red, blue, bare ovn.PortsData
	server          *server
	view            *ports.View
}

func newTenants(t *testing.T, change func(*bridgeOptions)) *tenants {
	x := &tenants{t: t}
	var local vswitch.View
	for i, d := range []*ovn.PortsData{&x.red, &x.blue, &x.bare} {
		name := []string{"red", "blue", "bare"}[i]
		*d = ovn.PortsData{Network: origin.Network{byte(i + 1)}, Switch: name, Machines: true}
		for n, letter := range []string{"a", "b"} {
			d.Ports = append(d.Ports, port(name+"-"+letter, 0, fmt.Sprint("02:00:00:00:00:01 10.0.0.1", n)))
			local.Interfaces = append(local.Interfaces, vswitch.Interface{UUID: name + letter, Name: name + letter, IfaceID: name + "-" + letter, OFPort: uint32(10*(i+1) + n)})
		}
		if name != "bare" {
			d.Gateways = addresses("10.0.0.1 fd00::1")
			setServers(d, "9.9.9.9 10.0.0.53")
			d.Ports = append(d.Ports, ovn.PortData{LogicalPort: &ovn.LogicalPort{Name: name + "-r", Type: "router"}})
		}
	}
	x.view = ports.NewView(local, nil)
	o := defaultOptions("br-tenants")
	o.Placement, o.Addresses = placement.Table, nil
	change(&o)
	x.server = &server{options: o}
	x.publish()
	return x
}

// addresses are in a text with blanks between them.
func addresses(text string) (all []netip.Addr) {
	for _, word := range strings.Fields(text) {
		all = append(all, netip.MustParseAddr(word))
	}
	return all
}

// setServers gives the guests of a network DNS servers by DHCP. They share the list, as in OVN.
func setServers(d *ovn.PortsData, text string) {
	all := addresses(text)
	for i := range d.Ports {
		d.Ports[i].DNSServers = all
	}
}

// publish has the server see the networks as they are now.
func (x *tenants) publish() {
	x.server.source = ovndb.ReaderOf(snapshotOf(x.red, x.blue, x.bare))
}

// expects checks the guests and their addresses: a line for each.
func (x *tenants) expects(want ...string) []flows.Guest {
	x.t.Helper()
	l := listGuests(&x.server.options, x.view, x.server.source.Snapshot())
	var got []string
	for _, g := range l.guests {
		got = append(got, fmt.Sprint(g.Port, g.Addresses, g.Owned))
	}
	for _, network := range slices.Sorted(maps.Keys(l.withoutAddress)) {
		line := fmt.Sprint(strings.Fields(network)[0], " ", l.withoutAddress[network].guests)
		if machines := l.withoutAddress[network].machines; len(machines) > 0 {
			line += fmt.Sprint(" ", machines)
		}
		got = append(got, line)
	}
	if d := cmp.Diff(want, got); d != "" {
		x.t.Error(d)
	}
	return l.guests
}

// owns checks which addresses a port of a guest's network has.
func (x *tenants) owns(iface string, addresses map[string]bool) {
	x.t.Helper()
	for a, want := range addresses {
		if got := x.server.owns(new(openflow.PacketIn), &vswitch.Interface{IfaceID: iface}, netip.MustParseAddr(a)); got != want {
			x.t.Errorf("the network of %s has %s: %v", iface, a, got)
		}
	}
}

// accepts checks which addresses a guest's packets are taken for.
func (x *tenants) accepts(iface string, addresses map[string]bool) {
	x.t.Helper()
	for a, want := range addresses {
		if got := x.server.hasAddress(new(openflow.PacketIn), &vswitch.Interface{IfaceID: iface}, netip.MustParseAddrPort(a)); got != want {
			x.t.Errorf("%s has %s: %v", iface, a, got)
		}
	}
}

// The addresses of a tenant are his alone, and follow the snapshot; guests of one network
// share the list.
func TestOwnAddresses(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP, o.Gateways = true, true })
	const all, gateways = "[9.9.9.9:53 10.0.0.53:53 10.0.0.1:53 [fd00::1]:53]", "[10.0.0.1 fd00::1]"
	guests := x.expects("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+all+" "+gateways, "21 "+all+" "+gateways, `"bare" 2`)
	if &guests[0].Addresses[0] != &guests[1].Addresses[0] {
		t.Error("the guests of a network have lists of their own")
	}
	x.accepts("red-a", map[string]bool{"9.9.9.9:53": true, "10.0.0.53:53": true, "10.0.0.1:53": true, "[fd00::1]:53": true, "10.0.0.1:5353": false, "8.8.8.8:53": false})
	x.accepts("bare-a", map[string]bool{"9.9.9.9:53": false, "10.0.0.1:53": false})
	x.owns("red-a", map[string]bool{"9.9.9.9": false, "10.0.0.1": true, "fd00::1": true, "10.0.0.10": true})
	x.owns("nobody", map[string]bool{"10.0.0.1": false})
	x.accepts("nobody", map[string]bool{"9.9.9.9:53": false})

	t.Run("a DNS server of a tenant", func(t *testing.T) {
		x.blue.Ports = append(x.blue.Ports, port("ns", 0, "02:00:00:00:00:53 10.0.0.53"))
		x.publish()
		const blue = "[9.9.9.9:53 10.0.0.1:53 [fd00::1]:53]"
		x.expects("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("blue-a", map[string]bool{"10.0.0.53:53": false, "9.9.9.9:53": true})
		x.accepts("red-a", map[string]bool{"10.0.0.53:53": true})
	})
	t.Run("other options of a tenant", func(t *testing.T) {
		setServers(&x.blue, "10.0.0.1")
		x.publish()
		const blue = "[10.0.0.1:53 [fd00::1]:53]"
		x.expects("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("blue-a", map[string]bool{"9.9.9.9:53": false, "10.0.0.1:53": true})
	})
	t.Run("another router of a tenant", func(t *testing.T) {
		x.red.Gateways = addresses("10.0.0.254")
		x.publish()
		const red, blue = "[9.9.9.9:53 10.0.0.53:53 10.0.0.254:53]", "[10.0.0.1:53 [fd00::1]:53]"
		x.expects("10 "+red+" [10.0.0.254]", "11 "+red+" [10.0.0.254]", "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("red-a", map[string]bool{"10.0.0.1:53": false, "10.0.0.254:53": true})
	})
}

// An interface is told that it has no resolver address if that is so for its own port, whatever the
// others are told.
func TestWhyUnservedAddressless(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	const all = "[9.9.9.9:53 10.0.0.53:53] []"
	x.expects("10 "+all, "11 "+all, "20 "+all, "21 "+all, `"bare" 2`)
	snapshot := x.server.source.Snapshot()
	session := &sessionState{withoutAddress: listGuests(&x.server.options, x.view, snapshot).withoutAddress}
	told := guestTeller{teller: teller{bridge: &bridge{name: "br-tenants"}, srv: x.server, session: session, view: x.view}, snapshot: snapshot}
	reasons := ""
	for _, port := range []string{"red-a", "blue-b", "bare-a"} {
		reason, expected := told.whyUnserved(&vswitch.Interface{Name: "tap", IfaceID: port, OFPort: 99})
		reasons += fmt.Sprintf("%s (expected %v): %s\n", port, expected, reason)
	}
	golden.Check(t, reasons)
}

// Each of the properties gives its own addresses, and with others none is given twice.
func TestOwnAddressesOfOptions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*bridgeOptions)
		want   []string // of red, and how many guests of the third have none
	}{
		{"dhcp", func(o *bridgeOptions) { o.DHCP = true }, []string{"[9.9.9.9:53 10.0.0.53:53] []", `"bare" 2`}},
		{"gateway", func(o *bridgeOptions) { o.Gateways = true }, []string{"[10.0.0.1:53 [fd00::1]:53] [10.0.0.1 fd00::1]", `"bare" 2`}},
		{"and the same", func(o *bridgeOptions) {
			o.DHCP, o.Addresses = true, []netip.AddrPort{netip.MustParseAddrPort("9.9.9.9:53"), netip.MustParseAddrPort("10.0.0.53:5353")}
		}, []string{"[10.0.0.53:53] []", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTenants(t, tt.change)
			var want []string
			for _, port := range []string{"10", "11", "20", "21"} {
				want = append(want, port+" "+tt.want[0])
			}
			if tt.want[1] == "" {
				want = append(want, "30 [] []", "31 [] []")
			} else {
				want = append(want, tt.want[1])
			}
			x.expects(want...)
		})
	}
}

// A network whose DNS server is a machine of the tenant has no resolver address, and which machine
// that is.
func TestAddresslessByMachine(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	setServers(&x.red, "10.0.0.11 10.0.0.10")
	x.publish()
	const blue = "[9.9.9.9:53 10.0.0.53:53] []"
	x.expects("20 "+blue, "21 "+blue, `"bare" 2`, `"red" 2 [10.0.0.10 10.0.0.11]`)
}

// An operator is told by a code which guests lack nothing but a resolver address.
func TestTellAddressless(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	const all = "[9.9.9.9:53 10.0.0.53:53] []"
	x.expects("10 "+all, "11 "+all, "20 "+all, "21 "+all, `"bare" 2`)
	snapshot := x.server.source.Snapshot()
	without := listGuests(&x.server.options, x.view, snapshot).withoutAddress
	teller := guestTeller{
		teller:   teller{bridge: &bridge{name: "br-tenants"}, srv: x.server, session: &sessionState{withoutAddress: without, unserved: map[string]string{"blue-a": "some other reason"}}, view: x.view},
		snapshot: snapshot,
		served:   map[string]bool{"red-a": true, "red-b": true, "blue-b": true},
	}
	var out api.Guests
	teller.tellUnserved(&out)
	got := map[string]string{}
	for _, u := range out.Unserved {
		got[u.Port] = u.Code
	}
	if want := map[string]string{"blue-a": "", "bare-a": api.CodeNoAddress, "bare-b": api.CodeNoAddress}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What holds of a network is logged when it changes, and once.
func TestNetworkLog(t *testing.T) {
	var l networkLog
	for _, step := range []struct {
		now          map[string]string
		begun, ended []string
	}{
		{map[string]string{}, nil, nil},
		{map[string]string{"b": "one", "a": "one"}, []string{"a", "b"}, nil},
		{map[string]string{"b": "one", "a": "one"}, nil, nil},
		{map[string]string{"b": "another"}, []string{"b"}, []string{"a"}},
		{map[string]string{"b": "another"}, nil, nil},
		{nil, nil, []string{"b"}},
	} {
		if begun, ended := l.update(step.now); !slices.Equal(begun, step.begun) || !slices.Equal(ended, step.ended) {
			t.Errorf("%v: %v and %v, want %v and %v", step.now, begun, ended, step.begun, step.ended)
		}
	}
}

// A tenant's own server at a resolver address of all guests is left to its network. Another tenant
// has the resolver address, and so has a network where a router or a localport has the address.
func TestAddressesLeftToWorkloads(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.Addresses = defaultOptions("br-tenants").Addresses })
	const red, blue = 10, 20
	for _, step := range []struct{ name, kind, address, left string }{
		{"a workload", "", "fd00::254", "[fd00::254]"},
		{"a localport", "localport", "fd00::254", "[]"},
		{"a workload again", "", "fd00::254", "[fd00::254]"},
		{"another address", "", "fd00::253", "[]"},
	} {
		ns := port("ns", 0, step.address)
		ns.Type = step.kind
		network := x.blue
		network.Ports = append(slices.Clone(network.Ports), ns)
		got := map[uint32]string{}
		for _, g := range listGuests(&x.server.options, x.view, snapshotOf(x.red, network, x.bare)).guests {
			got[g.Port] = fmt.Sprint(g.Left)
		}
		if got[blue] != step.left || got[red] != "[]" {
			t.Errorf("%s: %v, want %s", step.name, got, step.left)
		}
	}
}

// A server asks the databases for the addresses of its guests.
func TestOwnAddressesRequested(t *testing.T) {
	database := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	var ops []any
	for _, op := range []string{
		`{"op":"insert","table":"DHCP_Options","uuid-name":"d","row":{"cidr":"10.0.0.0/24","options":["map",[["dns_server","9.9.9.9"]]]}}`,
		`{"op":"insert","table":"Logical_Router_Port","uuid-name":"lrp","row":{"name":"lrp","mac":"02:00:00:00:00:01","networks":"10.0.0.1/24"}}`,
		`{"op":"insert","table":"Logical_Router","row":{"name":"r","ports":["named-uuid","lrp"]}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"r","row":{"name":"r","type":"router","addresses":"router","options":["map",[["router-port","lrp"]]]}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"vm","row":{"name":"vm","dhcpv4_options":["named-uuid","d"],"addresses":"02:00:00:00:00:02 10.0.0.2"}}`,
		`{"op":"insert","table":"Logical_Switch","row":{"name":"red","ports":["set",[["named-uuid","vm"],["named-uuid","r"]]]}}`,
	} {
		ops = append(ops, json.RawMessage(op))
	}
	database.Transact(t, "OVN_Northbound", ops...)
	view := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", IfaceID: "vm", OFPort: 5}}}, nil)
	for _, tt := range []struct {
		dhcp, gateways bool
		want           string
	}{{true, true, "[9.9.9.9:53 10.0.0.1:53]"}, {true, false, "[9.9.9.9:53]"}, {false, true, "[10.0.0.1:53]"}} {
		o := defaultOptions("br-requests")
		o.Placement, o.Addresses, o.DHCP, o.Gateways = placement.Table, nil, tt.dhcp, tt.gateways
		s := &server{options: o, hasOVNHosts: true, database: ovndb.Config{Northbound: []string{database.Endpoint}}}
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		s.applyView(view)
		testkit.OnChange(t, s.source, "the guest has "+tt.want, func() error {
			guests := listGuests(&o, view, s.source.Snapshot()).guests
			if len(guests) != 1 || fmt.Sprint(guests[0].Addresses) != tt.want {
				return fmt.Errorf("guests %+v", guests)
			}
			return nil
		})
		s.close()
	}
}

// That guests have lost their addresses is a warning, that they have some again is none. A
// reload that leaves nobody served tells that the addresses are why.
func TestAddresslessLevels(t *testing.T) {
	out := testkit.CaptureLog(t)
	s, _ := pairSession(t, func() {})
	o := &bridgeOptions{DHCP: true}
	s.desired.withoutAddress = map[string]addressless{"a": {guests: 3}}
	s.reportAddressless(o)
	s.desired.withoutAddress = nil
	s.reportAddressless(o)

	before, after := s.bridge.current.Load(), chainServer(t)
	after.options.DHCP, after.options.Addresses = true, nil
	s.bridge.ports.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{Name: "tap-a", OFPort: 1, IfaceID: "a"}}}, nil))
	s.bridge.served.set(before, 5)
	s.bridge.current.Store(after)
	s.bridge.served.set(after, 0)
	s.desired.withoutAddress = map[string]addressless{"a": {guests: 3}, "b": {guests: 2}}
	s.reportNobodyServed(after)
	s.reportNobodyServed(after)
	lines := regexp.MustCompile(`\[(?:WARNING|INFO)\] .*(?:switch a:|: 5;).*`).FindAllString(out.String(), -1)
	golden.Check(t, strings.Join(lines, "\n"), (&addressless{}).why(o), "WHY")
}

// The reason is the same in whatever order the guests of a network come, or it would be logged
// again.
func TestAddresslessWhy(t *testing.T) {
	reasons := map[string]bool{}
	for _, order := range [][]byte{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {5, 1, 6, 3, 3, 2, 4, 1}} {
		var a addressless
		for _, last := range order {
			a.addMachine(netip.AddrFrom4([4]byte{10, 0, 0, last}))
		}
		reasons[a.why(&bridgeOptions{DHCP: true})] = true
	}
	golden.Check(t, strings.Join(slices.Sorted(maps.Keys(reasons)), "\n"))
}
