// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// rowsOfRed are the rows of the switch red, of which a test changes some.
type rowsOfRed struct {
	southbound *topology.Southbound
	northbound *topology.Northbound
	uses       interest.Uses
	plugged    []string
	// monitor is the Monitor of both databases. awaitsGroups is set if the last build has filled AwaitingGroups.
	monitor      interest.Monitor
	awaitsGroups bool
}

var (
	red      = origin.Network{1}
	hv1, hv2 = ovsdb.UUID{0x11}, ovsdb.UUID{0x12}
	datapath = ovsdb.UUID{0x21}
)

func logicalPort(name string, key uint32, address string) ovn.LogicalPort {
	return ovn.LogicalPort{Name: name, Key: key, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

// southboundOfRed has the port vm1 on this chassis hv1 and vm2 on hv2.
func southboundOfRed() *topology.Southbound {
	s := topology.NewSouthbound(nil, func() []string { return nil })
	s.IsReadByName = func(string) bool { return false }
	s.SetChassis("hv1")
	s.Chassis.Put(hv1, &topology.Chassis{Name: "hv1"})
	s.Chassis.Put(hv2, &topology.Chassis{Name: "hv2"})
	s.Datapaths.Put(datapath, &topology.Datapath{ID: datapath, Network: red, Name: "red", Key: 7})
	for i, chassis := range []ovsdb.UUID{hv1, hv2} {
		s.Ports.Put(ovsdb.UUID{0x31, byte(i)}, &topology.PortBinding{
			Datapath: datapath, Chassis: chassis,
			PortRow: topology.PortRow{LogicalPort: logicalPort(fmt.Sprint("vm", i+1), uint32(i+1), fmt.Sprint("10.0.0.", i+1))},
		})
	}
	return s
}

// northboundOfRed has the ports vm1 and vm2, of which vm1 has the address 10.0.0.9, and DHCP options of both.
func northboundOfRed(alone bool) *topology.Northbound {
	n := topology.NewNorthbound(nil, func() []string { return nil }, alone)
	dhcp := ovsdb.UUID{0x51}
	n.DHCP.Put(dhcp, &topology.DHCPOptions{Domain: "red.test", RawServers: "9.9.9.9"})
	ports := []ovsdb.UUID{{0x41, 1}, {0x41, 2}}
	n.Switches.Put(ovsdb.UUID(red), &topology.LogicalSwitch{Name: "red", Ports: ports})
	for i, address := range []string{"10.0.0.9", "10.0.0.2"} {
		n.Ports.Put(ports[i], &topology.SwitchPort{
			ID: ports[i], DHCP: topology.DHCPRows{V4: dhcp},
			PortRow: topology.PortRow{LogicalPort: logicalPort(fmt.Sprint("vm", i+1), 0, address)},
		})
	}
	return n
}

func (r *rowsOfRed) build(old *ovn.Network, withPorts bool) (n *ovn.Network, hasProblems bool) {
	in := &Inputs{
		View: r.northbound, Southbound: r.southbound, Northbound: r.northbound, Plugged: r.plugged,
		Coverage:       interest.Coverage{Uses: r.uses, Southbound: r.southbound, Northbound: r.northbound, SouthboundMonitor: &r.monitor, NorthboundMonitor: &r.monitor},
		AwaitingGroups: make(map[origin.Network]struct{}),
	}
	defer func() { r.awaitsGroups = len(in.AwaitingGroups) > 0 }()
	if r.southbound != nil {
		in.View, in.Guests = r.southbound, &binding.Inputs{Rows: r.southbound, Covers: func(origin.Network) bool { return true }, Asked: func(string) bool { return true }}
	}
	var p problem.Set
	n = in.Network(red, old, withPorts, &p)
	return n, !p.IsEmpty()
}

// guestsOf has a line for each port that is local, by its name.
func guestsOf(n *ovn.Network) (lines []string) {
	if n == nil {
		return []string{"no network"}
	}
	edit := new(ovn.Snapshot).Edit().Put(n)
	for p := range edit.Done().Guests() {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(p.Name, " ", p.DatapathKey, ":", p.Key, " ", p.Addresses, " ", p.Domain, " ", p.DNSServers)))
	}
	slices.Sort(lines)
	return lines
}

// Which rows a network is made of: Southbound tells keys and bindings, Northbound addresses that IPAM has
// given, DHCP options and domains.
func TestNetwork(t *testing.T) {
	both := func() *rowsOfRed {
		return &rowsOfRed{southbound: southboundOfRed(), northbound: northboundOfRed(false)}
	}
	for _, tt := range []struct {
		name string
		rows func() *rowsOfRed
		want []string
	}{
		{"Southbound alone", func() *rowsOfRed { return &rowsOfRed{southbound: southboundOfRed()} }, []string{"vm1 7:1 [10.0.0.1]  []"}},
		{"both", both, []string{"vm1 7:1 [10.0.0.9] red.test []"}},
		{"both, and DNS servers are asked for", func() *rowsOfRed {
			r := both()
			r.uses.DNSServers = true
			return r
		}, []string{"vm1 7:1 [10.0.0.9] red.test [9.9.9.9]"}},
		{"Northbound has the port on another switch", func() *rowsOfRed {
			r := both()
			r.northbound.Switches.Put(ovsdb.UUID{2}, &topology.LogicalSwitch{Name: "blue", Ports: []ovsdb.UUID{{0x41, 1}}})
			r.northbound.Switches.Put(ovsdb.UUID(red), &topology.LogicalSwitch{Name: "red", Ports: []ovsdb.UUID{{0x41, 2}}})
			return r
		}, []string{"vm1 7:1 [10.0.0.1]  []"}},
		{"the port is disabled", func() *rowsOfRed {
			r := both()
			p := *r.northbound.Ports.Get(ovsdb.UUID{0x41, 1})
			p.Disabled = true
			r.northbound.Ports.Put(ovsdb.UUID{0x41, 1}, &p)
			return r
		}, []string{"vm1 7:1 [10.0.0.9] red.test []"}},
		{"Northbound alone, plugged", func() *rowsOfRed { return &rowsOfRed{northbound: northboundOfRed(true), plugged: []string{"vm2"}} }, []string{"vm2 0:0 [10.0.0.2] red.test []"}},
		{"Northbound alone, nothing plugged", func() *rowsOfRed { return &rowsOfRed{northbound: northboundOfRed(true)} }, nil},
		{"no datapath", func() *rowsOfRed {
			r := both()
			r.southbound.Datapaths.Put(datapath, &topology.Datapath{ID: datapath, Network: origin.Network{2}, Name: "blue", Key: 7})
			return r
		}, []string{"no network"}},
		{"not covered", func() *rowsOfRed {
			r := &rowsOfRed{northbound: northboundOfRed(true), plugged: []string{"vm2"}}
			r.uses.Local = true
			return r
		}, []string{"no network"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, hasProblems := tt.rows().build(nil, true)
			if d := cmp.Diff(tt.want, guestsOf(n)); d != "" || hasProblems {
				t.Errorf("%s, problems %v", d, hasProblems)
			}
		})
	}
}

// A change that touches no port shares the ports of the version before.
func TestNetworkSharesPorts(t *testing.T) {
	r := &rowsOfRed{southbound: southboundOfRed()}
	old, _ := r.build(nil, true)
	if shared, _ := r.build(old, false); shared.Ports() != old.Ports() {
		t.Error("the ports are made anew")
	}
	if fresh, _ := r.build(old, true); fresh.Ports() == old.Ports() {
		t.Error("the ports are those of before")
	}
}

// A guest is left out until its groups have come, unless the version before has it.
func TestNetworkAwaitsGroups(t *testing.T) {
	for name, rows := range map[string]func() *rowsOfRed{
		"Southbound":       func() *rowsOfRed { return &rowsOfRed{southbound: southboundOfRed()} },
		"Northbound alone": func() *rowsOfRed { return &rowsOfRed{northbound: northboundOfRed(true), plugged: []string{"vm2"}} },
	} {
		t.Run(name, func(t *testing.T) {
			r := rows()
			old, _ := r.build(nil, true)
			guests := guestsOf(old)
			in := &interest.Inputs{Uses: interest.Uses{Southbound: r.southbound != nil, GroupNames: true}}
			r.uses = in.Uses
			want := func(when string, old *ovn.Network, guests []string, awaits bool) {
				t.Helper()
				n, _ := r.build(old, true)
				if d := cmp.Diff(guests, guestsOf(n)); d != "" || r.awaitsGroups != awaits {
					t.Errorf("%s: %s, awaits groups: %v", when, d, r.awaitsGroups)
				}
			}
			want("a new guest", nil, nil, true)
			want("a guest of before", old, guests, true)
			var conditions interest.Conditions
			if r.southbound != nil {
				conditions = interest.Southbound(r.southbound, in)
			} else {
				conditions = interest.Northbound(r.northbound, nil, nil, in)
			}
			r.monitor.Want(conditions, time.Time{})
			r.monitor.Sent(1)
			want("asked for", nil, nil, true)
			r.monitor.Acknowledge(1)
			want("come", nil, guests, false)
		})
	}
}

func TestTablesOf(t *testing.T) {
	row := func(id byte) *topology.DNSRow {
		return &topology.DNSRow{ID: ovsdb.UUID{id}, Table: names.NewTable([16]byte{id})}
	}
	a, b, c, d := row(1), row(2), row(2), row(3)
	for _, tt := range []struct {
		name      string
		dns, want []*topology.DNSRow
	}{
		{"none", nil, nil},
		{"in another order", []*topology.DNSRow{d, a, b}, []*topology.DNSRow{a, b, d}},
		{"of two datapaths", []*topology.DNSRow{d, a, a, d}, []*topology.DNSRow{a, d}},
		{"two with one UUID", []*topology.DNSRow{b, c}, []*topology.DNSRow{b, c}},
		{"two with one UUID, of two datapaths", []*topology.DNSRow{d, b, c, b, c, a}, []*topology.DNSRow{a, b, c, d}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tablesOf(tt.dns)
			ok := len(got) == len(tt.want)
			for _, r := range tt.want {
				ok = ok && slices.Contains(got, r.Table)
			}
			if !ok || !slices.IsSortedFunc(tt.dns, func(a, b *topology.DNSRow) int { return a.ID.Compare(b.ID) }) {
				t.Errorf("%d tables, want %d", len(got), len(tt.want))
			}
		})
	}
}
