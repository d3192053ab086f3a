// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/origin"
)

// parseAddresses parses addresses with blanks between them.
func parseAddresses(text string) (all []netip.Addr) {
	for _, word := range strings.Fields(text) {
		all = append(all, netip.MustParseAddr(word))
	}
	return all
}

// vif is the port of a guest on the switch 7 that this chassis has. Its addresses have blanks between them.
func vif(name string, key uint32, addresses string) PortData {
	return PortData{
		LogicalPort: &LogicalPort{Name: name, Key: key, Addresses: parseAddresses(addresses), MACs: []origin.MAC{{2, 0, 0, 0, 0, byte(key)}}},
		DatapathKey: 7, Local: true,
	}
}

// like is a port after a change.
func like(d PortData, change func(*PortData)) PortData {
	of := *d.LogicalPort
	d.LogicalPort = &of
	change(&d)
	return d
}

func external(name string, key uint32, mac byte) PortData {
	d := vif(name, key, "10.0.0.9")
	d.Type, d.MACs = TypeExternal, []origin.MAC{{2, 0, 0, 0, 0, mac}}
	return d
}

// showPorts is all that a network with ports says of them, a line for each.
func showPorts(ports *Ports) []string {
	n := NewNetwork(NetworkData{Ports: ports})
	s := new(Snapshot).Edit().Put(n).Done()
	var lines []string
	line := func(of string, all ...any) {
		if text := strings.TrimSpace(fmt.Sprintln(all...)); text != "" && text != "[]" {
			lines = append(lines, of+": "+text)
		}
	}
	var owners []string
	for _, a := range slices.SortedFunc(maps.Keys(ports.owners), netip.Addr.Compare) {
		text := a.String()
		if n.HasWorkload(a) {
			text += " workload"
		}
		if n.HasMachine(a) {
			text += " machine"
		}
		owners = append(owners, text)
	}
	line("owns", strings.Join(owners, ", "))
	if n.Owns(metadata4) && n.Owns(metadata6) {
		line("metadata", "yes")
	}
	line("gateways", n.Gateways())
	line("functions", n.FunctionPorts())
	if !slices.Equal(ports.datapaths, []uint32{7}) {
		line("switches", ports.datapaths)
	}
	for _, p := range slices.SortedFunc(maps.Values(portsByName(s)), compareNames) {
		text := fmt.Sprint(p.Addresses)
		if len(p.DNSServers) > 0 {
			text += fmt.Sprint(" servers ", p.DNSServers)
		}
		if of := p.Routers() + p.Groups() + p.ExternalID("id"); of != "" {
			text += " of " + of
		}
		if s.Guest(p.DatapathKey, p.Key) == p {
			text += " by keys"
		}
		line(p.Name, text)
	}
	var guests []string
	for p := range s.Guests() {
		guests = append(guests, p.Name)
	}
	slices.Sort(guests)
	line("guests", strings.Join(guests, " "))
	line("external", strings.Join(showExternal(s), ", "))
	var hosts []string
	for _, name := range []string{"vm.", "vm.red.test.", "box."} {
		if a, ok := n.Lookup(name, ""); ok {
			hosts = append(hosts, name+" "+ShowAnswer(a))
		}
	}
	line("names", strings.Join(hosts, ", "))
	return lines
}

func portsByName(s *Snapshot) map[string]*Port { return maps.Collect(s.ports.All()) }

func TestNewPorts(t *testing.T) {
	vm := vif("vm", 1, "10.0.0.1")
	ln := PortData{LogicalPort: &LogicalPort{Name: "ln", Type: TypeLocalnet, Key: 9}, DatapathKey: 7}
	many := make([]netip.Addr, MaxGateways+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
	}
	for _, tt := range []struct {
		name string
		data PortsData
		want []string
		Set  []string
	}{
		{"none", PortsData{}, nil, nil},
		{"a guest", PortsData{Ports: []PortData{vm}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] by keys", "guests: vm"}, nil},
		{"a port of another chassis", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.Local = false })}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] by keys"}, nil},
		{"without Southbound", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.DatapathKey, d.Key = 0, 0 })}, Keys: []uint32{}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1]", "guests: vm"}, nil},
		{"a switch that northd replaces", PortsData{Keys: []uint32{8, 7}}, []string{"switches: [7 8]"}, nil},
		{"a hostname", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.Hostname, d.Domain = "vm.", "red.test." })}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] by keys", "guests: vm", "names: vm. 10.0.0.1, vm.red.test. 10.0.0.1"}, nil},
		{"a hostname of two ports", PortsData{Ports: []PortData{
			like(vm, func(d *PortData) { d.Hostname = "box." }), like(vif("vm2", 2, "fd00::2"), func(d *PortData) { d.Hostname = "box." })}},
			[]string{"owns: 10.0.0.1 workload, fd00::2 workload", "vm: [10.0.0.1] by keys", "vm2: [fd00::2] by keys", "guests: vm vm2", "names: box. 10.0.0.1 fd00::2"}, nil},
		{"disabled", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.Hostname, d.Disabled = "vm.", true })}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] by keys", "guests: vm"}, nil},
		{"a hostname without an address", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.Hostname, d.Addresses = "vm.", nil })}},
			[]string{"vm: [] by keys", "guests: vm"}, nil},
		{"labels", PortsData{Routers: "r1,r2", Ports: []PortData{like(vm, func(d *PortData) { d.ExternalIDs = []ExternalID{{"x", "y"}, {"id", "p"}} })}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] of r1,r2p by keys", "guests: vm"}, nil},
		{"groups", PortsData{Ports: []PortData{like(vm, func(d *PortData) { d.Groups = "g1,g2" })}},
			[]string{"owns: 10.0.0.1 workload", "vm: [10.0.0.1] of g1,g2 by keys", "guests: vm"}, nil},
		{"DNS servers and machines", PortsData{Machines: true, Ports: []PortData{
			like(vm, func(d *PortData) { d.DNSServers = parseAddresses("9.9.9.9") }), {LogicalPort: &LogicalPort{Name: "r", Type: TypeRouter, Addresses: parseAddresses("10.0.0.254")}}}},
			[]string{"owns: 10.0.0.1 workload machine, 10.0.0.254", "vm: [10.0.0.1] servers [9.9.9.9] by keys", "guests: vm"}, nil},
		{"a localport", PortsData{Ports: []PortData{{LogicalPort: &LogicalPort{Name: "m", Type: TypeLocalport, Addresses: parseAddresses("10.0.0.2")}}}},
			[]string{"owns: 10.0.0.2", "metadata: yes"}, nil},
		{"a workload and a localport with its address", PortsData{Ports: []PortData{
			like(vm, func(d *PortData) { d.Type = "virtual" }), {LogicalPort: &LogicalPort{Name: "m", Type: TypeLocalport, Addresses: vm.Addresses}}}},
			[]string{"owns: 10.0.0.1 workload", "metadata: yes", "vm: [10.0.0.1] by keys", "guests: vm"}, nil},
		{"a service of Neutron", PortsData{Ports: []PortData{{LogicalPort: &LogicalPort{Name: "d", Service: true, Addresses: parseAddresses("10.0.0.2")}}}},
			[]string{"owns: 10.0.0.2 workload", "metadata: yes"}, nil},
		{"network functions", PortsData{Ports: []PortData{{LogicalPort: &LogicalPort{Name: "f2", Function: true, Key: 5}}, {LogicalPort: &LogicalPort{Name: "f1", Function: true, Key: 6}}}},
			[]string{"functions: [{f1 6} {f2 5}]"}, nil},
		{"a router and a workload with its address", PortsData{Gateways: parseAddresses("fd00::1 10.0.0.1 10.0.0.254 10.0.0.254"), Ports: []PortData{vm}},
			[]string{"owns: 10.0.0.1 workload, 10.0.0.254, fd00::1", "gateways: [10.0.0.1 10.0.0.254 fd00::1]", "vm: [10.0.0.1] by keys", "guests: vm"}, nil},
		{"too many routers", PortsData{Gateways: many}, nil, nil},
		{"external", PortsData{Ports: []PortData{external("x", 3, 0x11), ln, like(ln, func(d *PortData) { d.Name, d.Key, d.Tag = "ln2", 8, 101 })}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]", "guests: x", "external: x by ln tag 0: 02:00:00:00:00:11, x by ln2 tag 101: 02:00:00:00:00:11"}, nil},
		{"external, of another chassis", PortsData{Ports: []PortData{like(external("x", 3, 0x11), func(d *PortData) { d.Local = false }), ln}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]"}, nil},
		{"external, without a localnet port", PortsData{Ports: []PortData{external("x", 3, 0x11), like(ln, func(d *PortData) { d.DatapathKey = 8 })}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]", "guests: x"}, []string{`external port "x" is not served: its switch has no localnet port`}},
		{"external, without a MAC address", PortsData{Ports: []PortData{like(external("x", 3, 0x11), func(d *PortData) { d.MACs = nil }), ln}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]", "guests: x"}, []string{`external port "x" is not served: it has no MAC address`}},
		{"external, without Southbound", PortsData{Ports: []PortData{like(external("x", 0, 0x11), func(d *PortData) { d.DatapathKey = 0 })}, Keys: []uint32{}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]", "guests: x"}, nil},
		{"external, by service tags", PortsData{Ports: []PortData{external("x", 3, 0x11), like(ln, func(d *PortData) { d.Tag, d.ServiceTag = 5, true })}},
			[]string{"owns: 10.0.0.9 workload", "x: [10.0.0.9]", "guests: x"},
			[]string{`external port "x" is not served by localnet port "ln": ethtype 802.11ad, expected 802.11q`}},
		{"external, three with a MAC address", PortsData{Ports: []PortData{external("x3", 2, 0x11), external("x1", 4, 0x11), ln, external("x2", 3, 0x11)}},
			[]string{"owns: 10.0.0.9 workload", "x1: [10.0.0.9]", "x2: [10.0.0.9]", "x3: [10.0.0.9]", "guests: x1 x2 x3", "external: x1 by ln tag 0: 02:00:00:00:00:11"},
			[]string{
				`external port "x2" is not served: external port "x1" has the MAC address 02:00:00:00:00:11 too`,
				`external port "x3" is not served: external port "x1" has the MAC address 02:00:00:00:00:11 too`,
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.data.Keys == nil {
				tt.data.Keys = []uint32{7}
			}
			ports, problems := NewPorts(tt.data)
			if d := cmp.Diff(tt.want, showPorts(ports)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.Set, problems); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRetainedPorts adds retained guests to ports, and replaces the guests by them as in a network
// without rows. Neither changes the ports before, which snapshots share.
func TestRetainedPorts(t *testing.T) {
	vm, ln := vif("vm", 1, "10.0.0.1"), PortData{LogicalPort: &LogicalPort{Name: "ln", Type: TypeLocalnet, Key: 9}, DatapathKey: 7}
	made := func(all ...PortData) *Ports {
		p, _ := NewPorts(PortsData{Keys: []uint32{7}, Ports: all})
		return p
	}
	port := func(of *Ports) *Port { return of.guests[0] }
	moved := port(made(like(vm, func(d *PortData) { d.DatapathKey, d.Key = 6, 5 })))
	x := port(made(external("x", 3, 0x11), ln))
	for _, tt := range []struct {
		name         string
		ports        *Ports
		retained     []*Port
		guests, keys string // of both
		only         string // guests of the rowless network
		external     string
	}{
		{"none", made(vm), nil, "vm", "[7]", "", ""},
		{"with other keys", made(vm), []*Port{moved}, "vm vm", "[6 7]", "vm", ""},
		{"with the keys of its row", made(vm), []*Port{port(made(vm))}, "vm", "[7]", "vm", ""},
		{"without a row", made(), []*Port{port(made(vm))}, "vm", "[7]", "vm", ""},
		{"with the keys of another port", made(vif("other", 1, "10.0.0.2")), []*Port{port(made(vm))}, "other", "[7]", "vm", ""},
		{"external", made(ln), []*Port{x}, "x", "[7]", "x", "x by ln tag 0: 02:00:00:00:00:11"},
		{"external, beside another", made(external("y", 4, 0x12), ln), []*Port{x}, "x y", "[7]", "x", "x by ln tag 0: 02:00:00:00:00:11, y by ln tag 0: 02:00:00:00:00:12"},
		{"external, with the keys of its row", made(external("x", 3, 0x11), ln), []*Port{x}, "x", "[7]", "x", "x by ln tag 0: 02:00:00:00:00:11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of := func(p *Ports) (guests, keys, hosts string) {
				var all []string
				for _, p := range p.guests {
					all = append(all, p.Name)
				}
				slices.Sort(all)
				n := NewNetwork(NetworkData{ID: origin.Network{1}, Ports: p})
				s := new(Snapshot).Edit().Put(n).Done()
				for _, p := range p.guests {
					if got := s.Guest(p.DatapathKey, p.Key); (got == p) == p.IsExternal() {
						t.Errorf("%s by its keys: %v", p.Name, got)
					}
				}
				return strings.Join(all, " "), fmt.Sprint(p.datapaths), strings.Join(showExternal(s), ", ")
			}
			before := fmt.Sprint(showPorts(tt.ports), tt.ports.byKey, tt.ports.external, x, *x.LogicalPort)
			with := tt.ports.WithRetained(tt.retained)
			if guests, keys, hosts := of(with); guests != tt.guests || keys != tt.keys || hosts != tt.external {
				t.Errorf("guests %q, keys %s, external %q", guests, keys, hosts)
			}
			if same := with == tt.ports; same != (len(tt.retained) == 0) {
				t.Errorf("the same ports: %v", same)
			}
			if guests, _, hosts := of(tt.ports.onlyRetained(tt.retained)); guests != tt.only || !strings.HasPrefix(tt.external, hosts) || (hosts == "") != (tt.external == "") {
				t.Errorf("without rows: guests %q, external %q", guests, hosts)
			}
			if after := fmt.Sprint(showPorts(tt.ports), tt.ports.byKey, tt.ports.external, x, *x.LogicalPort); after != before {
				t.Errorf("the ports before have changed: %s\n%s", before, after)
			}
		})
	}
}
