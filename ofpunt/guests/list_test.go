// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

var defaultResolvers = []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53")}

// tenants are red and blue, with the same addresses and DHCP options, and bare, without either.
type tenants struct {
	t               *testing.T
	red, blue, bare ovn.PortsData
	rules           *Rules
	snapshot        *ovn.Snapshot
	view            *ports.View
}

func newTenants(t *testing.T, change func(*Config)) *tenants {
	x := &tenants{t: t}
	var local vswitch.View
	for i, d := range []*ovn.PortsData{&x.red, &x.blue, &x.bare} {
		name := []string{"red", "blue", "bare"}[i]
		*d = ovn.PortsData{Network: origin.Network{byte(i + 1)}, Switch: name, Machines: true}
		for n, letter := range []string{"a", "b"} {
			d.Ports = append(d.Ports, ovntest.Port(name+"-"+letter, 0, fmt.Sprint("02:00:00:00:00:01 10.0.0.1", n)))
			local.Interfaces = append(local.Interfaces, vswitch.Interface{UUID: name + letter, Name: name + letter, IfaceID: name + "-" + letter, OFPort: uint32(10*(i+1) + n)})
		}
		if name != "bare" {
			d.Gateways = addresses("10.0.0.1 fd00::1")
			setServers(d, "9.9.9.9 10.0.0.53")
			d.Ports = append(d.Ports, ovn.PortData{LogicalPort: &ovn.LogicalPort{Name: name + "-r", Type: "router"}})
		}
	}
	x.view = ports.NewView(local, nil)
	c := Config{Placement: placement.Table}
	change(&c)
	x.rules = NewRules(c)
	x.publish()
	return x
}

func addresses(text string) (all []netip.Addr) {
	for _, word := range strings.Fields(text) {
		all = append(all, netip.MustParseAddr(word))
	}
	return all
}

// Guests of a network share the list, as in OVN.
func setServers(d *ovn.PortsData, text string) {
	all := addresses(text)
	for i := range d.Ports {
		d.Ports[i].DNSServers = all
	}
}

func (x *tenants) publish() {
	x.snapshot = ovntest.Snapshot(x.red, x.blue, x.bare)
}

func (x *tenants) expects(want ...string) *List {
	x.t.Helper()
	l := x.book().List()
	var got []string
	for _, g := range l.Served {
		got = append(got, fmt.Sprint(g.Port, g.Addresses, g.Owned))
	}
	var without []string
	for network, of := range l.Without {
		line := fmt.Sprintf("%q %d", network.Switch, of.Guests)
		if len(of.Machines) > 0 {
			line += fmt.Sprint(" ", of.Machines)
		}
		without = append(without, line)
	}
	slices.Sort(without)
	if d := cmp.Diff(want, append(got, without...)); d != "" {
		x.t.Error(d)
	}
	return l
}

func (x *tenants) book() Book { return At(x.rules, x.snapshot, x.view) }

func (x *tenants) guest(iface string) Guest {
	x.t.Helper()
	for i := range x.view.Interfaces {
		if i := &x.view.Interfaces[i]; i.IfaceID == iface {
			g, ok := x.book().Sender(&openflow.PacketIn{InPort: i.OFPort}, i)
			if !ok {
				x.t.Fatalf("%s is no guest", iface)
			}
			return g
		}
	}
	x.t.Fatalf("there is no interface of %s", iface)
	return Guest{}
}

func (x *tenants) owns(iface string, addresses map[string]bool) {
	x.t.Helper()
	g := x.guest(iface)
	for a, want := range addresses {
		if got := g.IsOwned(netip.MustParseAddr(a)); got != want {
			x.t.Errorf("the network of %s has %s: %v", iface, a, got)
		}
	}
}

func (x *tenants) accepts(iface string, addresses map[string]bool) {
	x.t.Helper()
	g := x.guest(iface)
	for a, want := range addresses {
		ap := netip.MustParseAddrPort(a)
		if got := g.Answers(ap); got != want {
			x.t.Errorf("%s has %s: %v", iface, a, got)
		}
		if ap.Port() == placement.DNSPort && g.HasResolver(ap.Addr()) != want {
			x.t.Errorf("%s has %s as a neighbour: %v", iface, a, !want)
		}
	}
}

// A tenant's addresses are its own, and follow the snapshot.
func TestOwnResolvers(t *testing.T) {
	x := newTenants(t, func(o *Config) { o.DHCP, o.Gateways = true, true })
	const all, gateways = "[9.9.9.9:53 10.0.0.53:53 10.0.0.1:53 [fd00::1]:53]", "[10.0.0.1 fd00::1]"
	l := x.expects("10 "+all+" "+gateways, "11 "+all+" "+gateways, "20 "+all+" "+gateways, "21 "+all+" "+gateways, `"bare" 2`)
	if &l.Served[0].Addresses[0] != &l.Served[1].Addresses[0] {
		t.Error("the guests of a network have lists of their own")
	}
	x.accepts("red-a", map[string]bool{"9.9.9.9:53": true, "10.0.0.53:53": true, "10.0.0.1:53": true, "[fd00::1]:53": true, "10.0.0.1:5353": false, "8.8.8.8:53": false})
	x.accepts("bare-a", map[string]bool{"9.9.9.9:53": false, "10.0.0.1:53": false})
	x.owns("red-a", map[string]bool{"9.9.9.9": false, "10.0.0.1": true, "fd00::1": true, "10.0.0.10": true})

	t.Run("a DNS server of a tenant", func(t *testing.T) {
		x.blue.Ports = append(x.blue.Ports, ovntest.Port("ns", 0, "02:00:00:00:00:53 10.0.0.53"))
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

// NoResolver depends on the interface's own port.
func TestWhyNotWithoutResolver(t *testing.T) {
	x := newTenants(t, func(o *Config) { o.DHCP = true })
	reasons := ""
	for _, port := range []string{"red-a", "blue-b", "bare-a"} {
		r := x.book().WhyNot(&vswitch.Interface{Name: "tap", IfaceID: port, OFPort: 99}, &Known{Bridge: "br-tenants"})
		reasons += fmt.Sprintf("%s (expected %v, no resolver %v): %s\n", port, r.Expected(), r.Code == NoResolver, r.Text())
	}
	golden.Check(t, reasons)
}

func TestOwnResolversOfConfig(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string // of red, and how many guests of the third have none
	}{
		{"dhcp", func(o *Config) { o.DHCP = true }, []string{"[9.9.9.9:53 10.0.0.53:53] []", `"bare" 2`}},
		{"gateway", func(o *Config) { o.Gateways = true }, []string{"[10.0.0.1:53 [fd00::1]:53] [10.0.0.1 fd00::1]", `"bare" 2`}},
		{"and the same", func(o *Config) {
			o.DHCP, o.Resolvers = true, []netip.AddrPort{netip.MustParseAddrPort("9.9.9.9:53"), netip.MustParseAddrPort("10.0.0.53:5353")}
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

// A DNS server that is a tenant's machine is named, not used.
func TestWithoutResolverByMachine(t *testing.T) {
	x := newTenants(t, func(o *Config) { o.DHCP = true })
	setServers(&x.red, "10.0.0.11 10.0.0.10")
	x.publish()
	const blue = "[9.9.9.9:53 10.0.0.53:53] []"
	x.expects("20 "+blue, "21 "+blue, `"bare" 2`, `"red" 2 [10.0.0.10 10.0.0.11]`)
}

type onePolicy struct{ port string }

func (p *onePolicy) Of(o *origin.Origin) opening.Policy {
	if o.Port == p.port {
		return p
	}
	return nil
}
func (*onePolicy) HasLabel(string) bool                    { return false }
func (*onePolicy) Allows(string, opening.Destination) bool { return false }
func (*onePolicy) Networks() []opening.Network             { return nil }
func (*onePolicy) Sum() uint64                             { return 0 }

// Only guests with an egress policy have flows for arrival.
func TestArriving(t *testing.T) {
	d := ovntest.NetworkA(3)
	d.Ports[0].Arriving, d.Ports[1].Arriving = true, true
	rules := NewRules(Config{Placement: placement.OVN})
	for port, want := range map[string]string{"p0": "[1]", "p1": "[2]", "p2": "[]"} {
		rules.Egress = &onePolicy{port}
		arriving := []uint32{}
		for _, g := range At(rules, ovntest.Snapshot(d), nil).List().Served {
			if g.Arriving {
				arriving = append(arriving, g.Port)
			}
		}
		if got := fmt.Sprint(arriving); got != want {
			t.Errorf("policy of %s: arriving: %s, want %s", port, got, want)
		}
	}
}

// A tenant's own server keeps a default resolver address; a router or localport does not, nor other tenants.
func TestResolversLeftToWorkloads(t *testing.T) {
	x := newTenants(t, func(o *Config) { o.Resolvers = defaultResolvers })
	const red, blue = 10, 20
	for _, step := range []struct{ name, kind, address, left string }{
		{"a workload", "", "fd00::254", "[fd00::254]"},
		{"a localport", "localport", "fd00::254", "[]"},
		{"a workload again", "", "fd00::254", "[fd00::254]"},
		{"another address", "", "fd00::253", "[]"},
	} {
		ns := ovntest.Port("ns", 0, step.address)
		ns.Type = step.kind
		network := x.blue
		network.Ports = append(slices.Clone(network.Ports), ns)
		got := map[uint32]string{}
		x.snapshot = ovntest.Snapshot(x.red, network, x.bare)
		for _, g := range x.book().List().Served {
			got[g.Port] = fmt.Sprint(g.Left)
		}
		if blue := x.guest("blue-a"); blue.Answers(defaultResolvers[1]) != (step.left == "[]") {
			t.Errorf("%s: what a guest asks there is taken: %v", step.name, step.left != "[]")
		}
		if got[blue] != step.left || got[red] != "[]" {
			t.Errorf("%s: %v, want %s", step.name, got, step.left)
		}
	}
}

// The guests' order does not change the reason, which would be logged again.
func TestWhyWithoutResolver(t *testing.T) {
	reasons := map[string]bool{}
	for _, order := range [][]byte{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {5, 1, 6, 3, 3, 2, 4, 1}} {
		var w WithoutResolver
		for _, last := range order {
			w.addMachine(netip.AddrFrom4([4]byte{10, 0, 0, last}))
		}
		reasons[w.Why(&Config{DHCP: true})] = true
	}
	golden.Check(t, strings.Join(slices.Sorted(maps.Keys(reasons)), "\n"))
}
