// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// String writes a clause as scripts of tests do.
func (c clause) String() string {
	switch of := c.condition(); v := of.Value.(type) {
	case ovsdb.UUID:
		return fmt.Sprintf("%s=%x", c.Column, v[0])
	case map[string]string:
		return fmt.Sprintf("%s:%s=%s", c.Column, c.Key, c.Text)
	default:
		return fmt.Sprintf("%s=%v", c.Column, v)
	}
}

// format writes the clauses of a table.
func (c Conditions) format(table string) string {
	var all []string
	for _, of := range c[table] {
		all = append(all, of.String())
	}
	return strings.Join(all, " ")
}

// portRow returns the row of a port.
func portRow(name, kind, peer string) topology.PortRow {
	return topology.PortRow{LogicalPort: ovn.LogicalPort{Name: name, Type: kind}, Rare: &topology.RareColumns{Peer: peer}}
}

// interestRows are two networks, 0x11 and 0x12 with the datapaths 1 and 2, that the router 3 joins, and the
// network 0x14 with the datapath 4, in both databases. This chassis has the port "vm" of the first network.
func interestRows() (*topology.Southbound, *topology.Northbound) {
	noKeys := func() []string { return nil }
	s, n := topology.NewSouthbound(nil, noKeys), topology.NewNorthbound(nil, noKeys, false)
	s.IsReadByName = func(string) bool { return false }
	id := func(b byte) ovsdb.UUID { return ovsdb.UUID{b} }
	s.Chassis.Put(id(0xc), &topology.Chassis{Name: "hv1"})
	s.SetChassis("hv1")
	for _, d := range []byte{1, 2, 4} {
		s.Datapaths.Put(id(d), &topology.Datapath{Name: fmt.Sprint("net", d), Network: origin.Network{0x10 + d}, Key: uint32(d)})
	}
	s.Datapaths.Put(id(3), &topology.Datapath{Name: "router"})
	for i, p := range []*topology.PortBinding{
		{PortRow: portRow("vm", "", ""), Datapath: id(1), Chassis: id(0xc)},
		{PortRow: portRow("other", "", ""), Datapath: id(4), Chassis: id(0xd)},
		{PortRow: portRow("net1-r", ovn.TypePatch, "r-net1"), Datapath: id(1)}, {PortRow: portRow("r-net1", ovn.TypePatch, "net1-r"), Datapath: id(3)},
		{PortRow: portRow("net2-r", ovn.TypePatch, "r-net2"), Datapath: id(2)}, {PortRow: portRow("r-net2", ovn.TypePatch, "net2-r"), Datapath: id(3)},
	} {
		s.Ports.Put(id(byte(0x20+i)), p)
	}
	n.RouterPorts.Put(id(0x50), &topology.RouterPort{Name: "r-net1"})
	n.RouterPorts.Put(id(0x51), &topology.RouterPort{Name: "r-net2"})
	n.Routers.Put(id(3), &topology.Router{Name: "router", Ports: []ovsdb.UUID{id(0x50), id(0x51)}})
	n.DHCP.Put(id(0x60), new(topology.DHCPOptions))
	n.Ports.Put(id(0x31), &topology.SwitchPort{PortRow: portRow("vm", "", ""), DHCP: topology.DHCPRows{V4: id(0x60), V6: id(0x61)}})
	n.Ports.Put(id(0x32), &topology.SwitchPort{PortRow: portRow("net1-r", ovn.TypeRouter, "r-net1")})
	n.Ports.Put(id(0x33), &topology.SwitchPort{PortRow: portRow("net2-r", ovn.TypeRouter, "r-net2")})
	n.Switches.Put(id(0x11), &topology.LogicalSwitch{Name: "net1", Ports: []ovsdb.UUID{id(0x31), id(0x32)}, DNSRows: []ovsdb.UUID{id(0x70)}})
	n.Switches.Put(id(0x12), &topology.LogicalSwitch{Name: "net2", Ports: []ovsdb.UUID{id(0x33)}})
	n.Switches.Put(id(0x14), &topology.LogicalSwitch{Name: "net4"})
	return s, n
}

func TestSouthboundInterest(t *testing.T) {
	for _, tt := range []struct {
		name string
		uses Uses
		in   Inputs
		want map[string]string
	}{
		{"a guest here", Uses{}, Inputs{}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1",
			topology.TableDatapath: "_uuid=1", topology.TableDNS: "datapaths=1", topology.TableMeter: "", topology.TableGroup: "", topology.TableBand: "",
		}},
		{"what routers join", Uses{RouterScopes: true}, Inputs{}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1 datapath=2 datapath=3 type=localnet",
			topology.TableDatapath: "_uuid=1 _uuid=2 _uuid=3", topology.TableDNS: "datapaths=1 datapaths=2 datapaths=3",
		}},
		{"gateways", Uses{Gateways: true}, Inputs{}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=r-net1",
			topology.TableDatapath: "_uuid=1",
		}},
		{"names of routers", Uses{RouterNames: true}, Inputs{}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=r-net1",
			topology.TableDatapath: "_uuid=1 _uuid=3",
		}},
		{"no groups", Uses{}, Inputs{Retained: map[string]uint32{"gone": 9}}, map[string]string{topology.TablePortGroup: ""}},
		{"groups", Uses{GroupNames: true}, Inputs{}, map[string]string{topology.TablePortGroup: "ports=vm"}},
		{"groups of a retained guest", Uses{GroupNames: true}, Inputs{Retained: map[string]uint32{"gone": 9, "vm": 1}}, map[string]string{topology.TablePortGroup: "ports=gone ports=vm"}},
		{"a network by its name", Uses{}, Inputs{References: &ovn.References{Networks: map[ovn.SwitchRef]int{{Name: "net4"}: 1}}}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1 datapath=4",
			topology.TableDatapath: "_uuid=1 _uuid=4 external_ids:name=net4",
		}},
		{"a network by its UUID", Uses{}, Inputs{References: &ovn.References{Networks: map[ovn.SwitchRef]int{{ID: origin.Network{0x19}}: 1}}}, map[string]string{
			topology.TableDatapath: "_uuid=1 external_ids:logical-switch=19000000-0000-0000-0000-000000000000 nb_uuid=19",
		}},
		{"a retained guest, and a port by its name", Uses{}, Inputs{Retained: map[string]uint32{"gone": 9}, Ports: []string{"gone", "odd"}}, map[string]string{
			topology.TablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=gone logical_port=odd",
			topology.TableDatapath: "_uuid=1 tunnel_key=9",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, _ := interestRows()
			in := tt.in
			in.Uses = tt.uses
			if in.Local = true; in.References == nil {
				in.References = new(ovn.References)
			}
			got := Southbound(rows, &in)
			for table, want := range tt.want {
				if got.format(table) != want {
					t.Errorf("%s: %q, want %q", table, got.format(table), want)
				}
			}
			// See southbound.askPorts.
			for _, c := range got.Requests()[topology.TablePort] {
				if c.Function != "==" {
					t.Errorf("a clause with %q on a port: %v", c.Function, c)
				}
			}
			again, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var saved Conditions
			if err := json.Unmarshal(again, &saved); err != nil || !reflect.DeepEqual(saved, got) {
				t.Errorf("saved as %s: %v, %v", again, saved, err)
			}
		})
	}
	t.Run("all rows, with meters", func(t *testing.T) {
		rows, _ := interestRows()
		if got := Southbound(rows, &Inputs{}); !got.isEmpty() {
			t.Errorf("%v", got)
		}
		rows.Flows.Put(ovsdb.UUID{1}, &topology.Flow{Ingress: true, Meter: "dns", Group: ovsdb.UUID{0x80}})
		rows.CoPP.Meters.Put(ovsdb.UUID{0x81}, &topology.Meter{Name: "dns", Bands: []ovsdb.UUID{{0x82}}})
		got := Southbound(rows, &Inputs{})
		if len(got) != 4 || got.format(topology.TableMeter) != "name=dns" || got.format(topology.TableGroup) != "_uuid=80" || got.format(topology.TableBand) != "_uuid=82" {
			t.Errorf("%v", got)
		}
	})
}

// With Monitor All each database has all groups, once a request needs them.
func TestAllGroups(t *testing.T) {
	s, n := interestRows()
	for _, tt := range []struct {
		uses                      Uses
		southbound, alone, beside bool
	}{
		{Uses{}, false, false, false},
		{Uses{GroupNames: true}, true, true, false},
		{Uses{Egress: true}, false, true, true},
	} {
		in := &Inputs{Uses: tt.uses, Plugged: []string{"vm"}}
		southbound, alone := Southbound(s, in), Northbound(n, nil, nil, in)
		in.Southbound = true
		beside := Northbound(n, s, nil, in)
		for _, of := range []struct {
			database string
			got      Conditions
			all      bool
		}{{"Southbound", southbound, tt.southbound}, {"Northbound alone", alone, tt.alone}, {"Northbound beside Southbound", beside, tt.beside}} {
			if where, ok := of.got.Requests()[topology.TablePortGroup]; !ok || (where == nil) != of.all || len(where) > 0 {
				t.Errorf("%s, %+v: %v, %v", of.database, tt.uses, ok, where)
			}
		}
	}
}

func TestNorthboundInterest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		uses     Uses
		switches []ovsdb.UUID
		plugged  string
		network  string
		want     map[string]string
	}{
		{"the switches of Southbound", Uses{Southbound: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{
			topology.TableSwitch: "_uuid=11", topology.TableSwitchPort: "_uuid=31 _uuid=32 _uuid=33", topology.TableDNS: "_uuid=70", topology.TableDHCP: "_uuid=60",
			topology.TableRouter: "", topology.TableRouterPort: "",
		}},
		{"their DNS servers", Uses{Southbound: true, DNSServers: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{topology.TableDHCP: "_uuid=60 _uuid=61"}},
		{"their forwards", Uses{Southbound: true, Forwards: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{
			topology.TableRouterPort: "name=r-net1", topology.TableRouter: "ports=50",
		}},
		{"alone, by the interfaces", Uses{}, nil, "vm new", "", map[string]string{
			topology.TableSwitch: "ports=31", topology.TableSwitchPort: "_uuid=31 _uuid=32 _uuid=33 name=new name=vm",
		}},
		{"groups without egress policies", Uses{Southbound: true, GroupNames: true}, nil, "", "", map[string]string{topology.TablePortGroup: ""}},
		{"egress policies of groups", Uses{Southbound: true, Egress: true}, nil, "new", "", map[string]string{topology.TablePortGroup: "ports=31"}},
		{"alone, egress policies of groups", Uses{Egress: true}, nil, "vm new", "", map[string]string{topology.TablePortGroup: "ports=31"}},
		{"alone, groups", Uses{GroupNames: true}, nil, "vm new", "", map[string]string{topology.TablePortGroup: "ports=31"}},
		{"alone, what routers join", Uses{RouterScopes: true}, nil, "vm", "", map[string]string{
			topology.TableSwitch:     "_uuid=11 _uuid=12 ports=31",
			topology.TableSwitchPort: "_uuid=31 _uuid=32 _uuid=33 name=vm type=localnet type=router",
		}},
		{"alone, a network by its name", Uses{RouterScopes: true}, nil, "", "net4", map[string]string{topology.TableSwitch: "_uuid=14 name=net4", topology.TableSwitchPort: "type=localnet type=router"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, rows := interestRows()
			if !tt.uses.Southbound {
				s = nil
			}
			in := Inputs{Uses: tt.uses, References: new(ovn.References), Plugged: strings.Fields(tt.plugged)}
			slices.Sort(in.Plugged)
			if in.Local = true; tt.network != "" {
				in.References.Networks = map[ovn.SwitchRef]int{{Name: tt.network}: 1}
			}
			got := Northbound(rows, s, tt.switches, &in)
			for table, want := range tt.want {
				if got.format(table) != want {
					t.Errorf("%s: %q, want %q", table, got.format(table), want)
				}
			}
		})
	}
	t.Run("all rows, and those of routers for forwards", func(t *testing.T) {
		_, rows := interestRows()
		in := &Inputs{Uses: Uses{Southbound: true}}
		if got := Northbound(rows, nil, nil, in); !got.isEmpty() {
			t.Errorf("%v", got)
		}
		in.Forwards = true
		got := Northbound(rows, nil, nil, in).Requests()
		for _, table := range []string{topology.TableRouter, topology.TableRouterPort} {
			if where, ok := got[table]; !ok || where != nil {
				t.Errorf("%s: %v", table, where)
			}
		}
	})
}

// TestMonitor takes the conditions of a database through what is wanted and acknowledged: "want A B" is
// followed by whether conditions are sent.
func TestMonitor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps string
	}{
		{"nothing is wanted at first", "want: not"},
		{"rows are wanted and come", "want:a sends; all not; ack 1; all yes; has:a yes; has:b not"},
		{"the same is wanted", "want:a sends; want:a not"},
		{"a server that is behind has all that is wanted", "want:a,b sends; ack 1; want:a not; all yes"},
		{"more is wanted", "want:a sends; ack 1; want:a,b sends; all not; has:a yes; has:b not; ack 2; has:b yes; all yes"},
		{"rows may be going", "want:a sends; ack 1; want:b sends; has:a not; has:b not; want:a sends; has:a not; ack 2; has:a not; ack 3; has:a yes"},
		{"less is wanted", "want:a,b sends; ack 1; want:a not; pass; want:a sends; has:b not"},
		{"what follows goes too", "want:a,b,c sends; ack 1; want:a,b not; pass; want:a,b sends; want:a,b not; ack 2; want:a sends; ack 3; want:a not; want: not"},
		{"what is not wanted goes with the next change", "want:a,b sends; ack 1; want:a not; want:a,c sends; ack 2; has:b not"},
		{"what was given up is wanted again", "want:a,b sends; ack 1; want:a not; want:a,b not; pass; want:a,b not"},
		{"several are acknowledged at once", "want:a sends; want:b sends; ack 2; has:b yes; has:a not; all yes"},
		{"an old number", "want:a sends; ack 1; ack 1; ack 0; has:a yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, now, gen := new(Monitor), time.Unix(1000, 0), uint64(0)
			for step := range strings.SplitSeq(tt.steps, "; ") {
				verb, result, _ := strings.Cut(step, " ")
				verb, names, _ := strings.Cut(verb, ":")
				got := false
				switch verb {
				case "want":
					want := make(Conditions)
					askEach(want, topology.TablePort, strings.FieldsFunc(names, func(r rune) bool { return r == ',' }), PortNamed)
					if got = m.Want(want.Sort(), now); got {
						gen++
						m.Sent(gen)
					}
				case "ack":
					var n uint64
					if _, err := fmt.Sscan(result, &n); err != nil {
						t.Fatal(err)
					}
					m.Acknowledge(n)
					continue
				case "pass":
					now = now.Add(NarrowAfter)
					continue
				case "all":
					got = m.HasAll()
				case "has":
					got = m.has(topology.TablePort, PortNamed(names))
				}
				if got != (result == "yes" || result == "sends") {
					t.Errorf("%s: got %v", step, got)
				}
			}
		})
	}
}

func TestIncludes(t *testing.T) {
	set := func(chassis string, networks ...int) Conditions {
		c := Conditions{topology.TablePort: {textIs("chassis", chassis)}}
		for _, n := range networks {
			c.ask(topology.TableDatapath, RowWithID(ovsdb.UUID{byte(n)}))
		}
		return c.Sort()
	}
	routers := set("hv1", 1)
	routers.ask(topology.TablePort, textIs("type", ovn.TypeLocalnet))
	routers.Sort()
	for _, tt := range []struct {
		name        string
		asked, next Conditions
		want        bool
	}{
		{"the same", set("hv1", 1, 2), set("hv1", 1, 2), true},
		{"another network", set("hv1", 1, 2), set("hv1", 3), false},
		{"a network more", set("hv1", 1, 2), set("hv1", 1, 2, 3), false},
		{"a network less", set("hv1", 1, 2), set("hv1", 2), true},
		{"the last network", set("hv1", 1), set("hv1"), true},
		{"most of the networks", set("hv1", 1, 2, 3, 4, 5, 6, 7, 8), set("hv1", 1), true},
		{"another chassis", set("hv1", 1), set("hv2", 1), false},
		{"routers more", set("hv1", 1), routers, false},
		{"routers less", routers, set("hv1", 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.asked.includes(tt.next); got != tt.want {
				t.Error(got)
			}
		})
	}
}
