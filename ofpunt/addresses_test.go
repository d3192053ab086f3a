// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// tenants is a server that reads the Northbound of two tenants, red and blue, with the same
// addresses and DHCP options, and a third one that has neither.
type tenants struct {
	t        *testing.T
	database *ovsdbtest.Server
	server   *server
	view     *ports.View
}

func newTenants(t *testing.T, change func(*bridgeOptions)) *tenants {
	x := &tenants{t: t, database: ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")}
	var local vswitch.View
	for i, name := range []string{"red", "blue", "bare"} {
		dhcp := `"dhcpv4_options":["named-uuid","d"],`
		ops := []string{
			`{"op":"insert","table":"DHCP_Options","uuid-name":"d","row":{"cidr":"10.0.0.0/24","external_ids":["map",[["of","` + name + `"]]],"options":["map",[["dns_server","{9.9.9.9,10.0.0.53}"]]]}}`,
			`{"op":"insert","table":"Logical_Router_Port","uuid-name":"lrp","row":{"name":"r-` + name + `","mac":"02:00:00:00:00:01","networks":["set",["10.0.0.1/24","fd00::1/64"]]}}`,
			`{"op":"insert","table":"Logical_Router","row":{"name":"` + name + `","ports":["named-uuid","lrp"]}}`,
		}
		ports := `["named-uuid","a"],["named-uuid","b"],["named-uuid","r"]`
		if name == "bare" {
			dhcp, ops, ports = "", nil, `["named-uuid","a"],["named-uuid","b"]`
		} else {
			ops = append(ops, `{"op":"insert","table":"Logical_Switch_Port","uuid-name":"r","row":{"name":"`+name+`-r","type":"router","addresses":"router","options":["map",[["router-port","r-`+name+`"]]]}}`)
		}
		for n, port := range []string{"a", "b"} {
			ops = append(ops, fmt.Sprintf(`{"op":"insert","table":"Logical_Switch_Port","uuid-name":%q,"row":{%s"name":"%s-%s","addresses":"02:00:00:00:00:01 10.0.0.1%d"}}`, port, dhcp, name, port, n))
			local.Interfaces = append(local.Interfaces, vswitch.Interface{UUID: name + port, Name: name + port, IfaceID: name + "-" + port, OFPort: uint32(10*(i+1) + n)})
		}
		ops = append(ops, `{"op":"insert","table":"Logical_Switch","row":{"name":"`+name+`","ports":["set",[`+ports+`]]}}`)
		x.transact(ops...)
	}
	x.view = ports.NewView(local, nil)
	o := defaultOptions("br-tenants")
	o.Placement, o.Addresses = placement.Table, nil
	change(&o)
	x.server = &server{options: o, hasOVNHosts: true, database: ovn.Config{Northbound: []string{x.database.Endpoint}}}
	if err := x.server.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.server.close)
	x.server.applyView(x.view)
	return x
}

func (x *tenants) transact(ops ...string) {
	x.t.Helper()
	var all []any
	for _, op := range ops {
		all = append(all, json.RawMessage(op))
	}
	x.database.Transact(x.t, "OVN_Northbound", all...)
}

// awaits waits until the guests and their addresses are those: a line for each.
func (x *tenants) awaits(want ...string) []flows.Guest {
	x.t.Helper()
	var guests []flows.Guest
	testkit.OnChange(x.t, x.server.source, "the guests are\n"+strings.Join(want, "\n"), func() error {
		l := listGuests(&x.server.options, x.view, x.server.source.Snapshot())
		guests = l.guests
		var got []string
		for _, g := range guests {
			got = append(got, fmt.Sprint(g.Port, g.Addresses, g.Owned))
		}
		for _, network := range slices.Sorted(maps.Keys(l.withoutAddress)) {
			line := fmt.Sprint(strings.Fields(network)[0], " ", l.withoutAddress[network].guests)
			if machines := l.withoutAddress[network].machines; len(machines) > 0 {
				line += fmt.Sprint(" ", machines)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			return errors.New(strings.Join(got, "\n"))
		}
		return nil
	})
	return guests
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

// The addresses of a tenant are his alone, and follow the databases; guests of one network
// share the list.
func TestOwnAddresses(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP, o.Gateways = true, true })
	const all, gateways = "[9.9.9.9:53 10.0.0.53:53 10.0.0.1:53 [fd00::1]:53]", "[10.0.0.1 fd00::1]"
	guests := x.awaits("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+all+" "+gateways, "21 "+all+" "+gateways, `"bare" 2`)
	if &guests[0].Addresses[0] != &guests[1].Addresses[0] {
		t.Error("the guests of a network have lists of their own")
	}
	x.accepts("red-a", map[string]bool{"9.9.9.9:53": true, "10.0.0.53:53": true, "10.0.0.1:53": true, "[fd00::1]:53": true, "10.0.0.1:5353": false, "8.8.8.8:53": false})
	x.accepts("bare-a", map[string]bool{"9.9.9.9:53": false, "10.0.0.1:53": false})
	x.owns("red-a", map[string]bool{"9.9.9.9": false, "10.0.0.1": true, "fd00::1": true, "10.0.0.10": true})
	x.owns("nobody", map[string]bool{"10.0.0.1": false})
	x.accepts("nobody", map[string]bool{"9.9.9.9:53": false})

	t.Run("a DNS server of a tenant", func(t *testing.T) {
		x.transact(`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"ns","row":{"name":"ns","addresses":"02:00:00:00:00:53 10.0.0.53"}}`,
			`{"op":"mutate","table":"Logical_Switch","where":[["name","==","blue"]],"mutations":[["ports","insert",["named-uuid","ns"]]]}`)
		const blue = "[9.9.9.9:53 10.0.0.1:53 [fd00::1]:53]"
		x.awaits("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("blue-a", map[string]bool{"10.0.0.53:53": false, "9.9.9.9:53": true})
		x.accepts("red-a", map[string]bool{"10.0.0.53:53": true})
	})
	t.Run("other options of a tenant", func(t *testing.T) {
		x.transact(`{"op":"update","table":"DHCP_Options","where":[["external_ids","includes",["map",[["of","blue"]]]]],"row":{"options":["map",[["dns_server","10.0.0.1"]]]}}`)
		const blue = "[10.0.0.1:53 [fd00::1]:53]"
		x.awaits("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("blue-a", map[string]bool{"9.9.9.9:53": false, "10.0.0.1:53": true})
	})
	t.Run("another router of a tenant", func(t *testing.T) {
		x.transact(`{"op":"update","table":"Logical_Router_Port","where":[["name","==","r-red"]],"row":{"networks":"10.0.0.254/24"}}`)
		const red, blue = "[9.9.9.9:53 10.0.0.53:53 10.0.0.254:53]", "[10.0.0.1:53 [fd00::1]:53]"
		x.awaits("10 "+red+" [10.0.0.254]", "11 "+red+" [10.0.0.254]", "20 "+blue+" "+gateways, "21 "+blue+" "+gateways, `"bare" 2`)
		x.accepts("red-a", map[string]bool{"10.0.0.1:53": false, "10.0.0.254:53": true})
	})
}

// An interface is told that it has no resolver address if that is so for its own port, whatever the
// others are told.
func TestWhyUnservedAddressless(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	const all = "[9.9.9.9:53 10.0.0.53:53] []"
	x.awaits("10 "+all, "11 "+all, "20 "+all, "21 "+all, `"bare" 2`)
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
			x.awaits(want...)
		})
	}
}

// A network whose DNS server is a machine of the tenant has no resolver address, and which machine
// that is.
func TestAddresslessByMachine(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	x.transact(`{"op":"update","table":"DHCP_Options","where":[["external_ids","includes",["map",[["of","red"]]]]],"row":{"options":["map",[["dns_server","{10.0.0.11,10.0.0.10}"]]]}}`)
	const blue = "[9.9.9.9:53 10.0.0.53:53] []"
	x.awaits("20 "+blue, "21 "+blue, `"bare" 2`, `"red" 2 [10.0.0.10 10.0.0.11]`)
}

// An operator is told by a code which guests lack nothing but a resolver address.
func TestTellAddressless(t *testing.T) {
	x := newTenants(t, func(o *bridgeOptions) { o.DHCP = true })
	const all = "[9.9.9.9:53 10.0.0.53:53] []"
	x.awaits("10 "+all, "11 "+all, "20 "+all, "21 "+all, `"bare" 2`)
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
	for _, step := range []struct{ name, row, left string }{
		{"a workload", `"addresses":"02:00:00:00:02:54 fd00::254"`, "[fd00::254]"},
		{"a localport", `"addresses":"02:00:00:00:02:54 fd00::254","type":"localport"`, "[]"},
		{"a workload again", `"addresses":"02:00:00:00:02:54 fd00::254","type":""`, "[fd00::254]"},
		{"another address", `"addresses":"02:00:00:00:02:54 fd00::253"`, "[]"},
	} {
		if step.name == "a workload" {
			x.transact(`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"ns","row":{"name":"ns",`+step.row+`}}`,
				`{"op":"mutate","table":"Logical_Switch","where":[["name","==","blue"]],"mutations":[["ports","insert",["named-uuid","ns"]]]}`)
		} else {
			x.transact(`{"op":"update","table":"Logical_Switch_Port","where":[["name","==","ns"]],"row":{` + step.row + `}}`)
		}
		testkit.OnChange(t, x.server.source, step.name, func() error {
			got := map[uint32]string{}
			for _, g := range listGuests(&x.server.options, x.view, x.server.source.Snapshot()).guests {
				got[g.Port] = fmt.Sprint(g.Left)
			}
			if got[blue] != step.left || got[red] != "[]" {
				return fmt.Errorf("%v, want %s", got, step.left)
			}
			return nil
		})
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
