// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
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
func (c conditions) format(table string) string {
	var all []string
	for _, of := range c[table] {
		all = append(all, of.String())
	}
	return strings.Join(all, " ")
}

// interestRows are two networks, 0x11 and 0x12 with the datapaths 1 and 2, that the router 3 joins, and the
// network 0x14 with the datapath 4, in both databases. This chassis has the port "vm" of the first network.
func interestRows() (*southbound, *northbound) {
	noKeys := func() []string { return nil }
	s, n := newSouthbound(nil, noKeys), newNorthbound(nil, noKeys, false)
	s.isReadByName = func(string) bool { return false }
	id := func(b byte) ovsdb.UUID { return ovsdb.UUID{b} }
	s.chassis.Put(id(0xc), &chassis{name: "hv1"})
	s.setChassis("hv1")
	for _, d := range []byte{1, 2, 4} {
		s.datapaths.Put(id(d), &datapath{name: fmt.Sprint("net", d), network: origin.Network{0x10 + d}, key: uint32(d)})
	}
	s.datapaths.Put(id(3), &datapath{name: "router"})
	for i, p := range []*binding{
		{name: "vm", datapath: id(1), chassis: id(0xc)},
		{name: "other", datapath: id(4), chassis: id(0xd)},
		{name: "net1-r", kind: kindPatch, datapath: id(1), peer: "r-net1"}, {name: "r-net1", kind: kindPatch, datapath: id(3), peer: "net1-r"},
		{name: "net2-r", kind: kindPatch, datapath: id(2), peer: "r-net2"}, {name: "r-net2", kind: kindPatch, datapath: id(3), peer: "net2-r"},
	} {
		s.ports.Put(id(byte(0x20+i)), p)
	}
	n.routerPorts.Put(id(0x50), &routerPort{name: "r-net1"})
	n.routerPorts.Put(id(0x51), &routerPort{name: "r-net2"})
	n.routers.Put(id(3), &router{name: "router", ports: []ovsdb.UUID{id(0x50), id(0x51)}})
	n.dhcp.Put(id(0x60), new(dhcpOptions))
	n.ports.Put(id(0x31), &switchPort{name: "vm", dhcp: dhcpRows{v4: id(0x60), v6: id(0x61)}})
	n.ports.Put(id(0x32), &switchPort{name: "net1-r", kind: kindRouter, routerPort: "r-net1"})
	n.ports.Put(id(0x33), &switchPort{name: "net2-r", kind: kindRouter, routerPort: "r-net2"})
	n.switches.Put(id(0x11), &logicalSwitch{name: "net1", ports: []ovsdb.UUID{id(0x31), id(0x32)}, dnsRows: []ovsdb.UUID{id(0x70)}})
	n.switches.Put(id(0x12), &logicalSwitch{name: "net2", ports: []ovsdb.UUID{id(0x33)}})
	n.switches.Put(id(0x14), &logicalSwitch{name: "net4"})
	return s, n
}

func TestSouthboundInterest(t *testing.T) {
	for _, tt := range []struct {
		name string
		uses uses
		in   interestInputs
		want map[string]string
	}{
		{"a guest here", uses{}, interestInputs{}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1",
			tableDatapath: "_uuid=1", tableDNS: "datapaths=1", tableMeter: "", tableGroup: "", tableBand: "",
		}},
		{"what routers join", uses{routerScopes: true}, interestInputs{}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1 datapath=2 datapath=3 type=localnet",
			tableDatapath: "_uuid=1 _uuid=2 _uuid=3", tableDNS: "datapaths=1 datapaths=2 datapaths=3",
		}},
		{"gateways", uses{gateways: true}, interestInputs{}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=r-net1",
			tableDatapath: "_uuid=1",
		}},
		{"names of routers", uses{routerNames: true}, interestInputs{}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=r-net1",
			tableDatapath: "_uuid=1 _uuid=3",
		}},
		{"a network by its name", uses{}, interestInputs{references: &references{networks: map[SwitchRef]int{{Name: "net4"}: 1}}}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1 datapath=4",
			tableDatapath: "_uuid=1 _uuid=4 external_ids:name=net4",
		}},
		{"a network by its UUID", uses{}, interestInputs{references: &references{networks: map[SwitchRef]int{{ID: origin.Network{0x19}}: 1}}}, map[string]string{
			tableDatapath: "_uuid=1 external_ids:logical-switch=19000000-0000-0000-0000-000000000000 nb_uuid=19",
		}},
		{"a retained guest, and a port by its name", uses{}, interestInputs{retained: map[string]uint32{"gone": 9}, ports: []string{"gone", "odd"}}, map[string]string{
			tablePort:     "additional_chassis=c chassis=c datapath=1 logical_port=gone logical_port=odd",
			tableDatapath: "_uuid=1 tunnel_key=9",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, _ := interestRows()
			in := tt.in
			in.uses = tt.uses
			if in.local = true; in.references == nil {
				in.references = new(references)
			}
			got := southboundInterest(rows, &in)
			for table, want := range tt.want {
				if got.format(table) != want {
					t.Errorf("%s: %q, want %q", table, got.format(table), want)
				}
			}
			// See southbound.askPorts.
			for _, c := range got.requests()[tablePort] {
				if c.Function != "==" {
					t.Errorf("a clause with %q on a port: %v", c.Function, c)
				}
			}
			again, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var saved conditions
			if err := json.Unmarshal(again, &saved); err != nil || !reflect.DeepEqual(saved, got) {
				t.Errorf("saved as %s: %v, %v", again, saved, err)
			}
		})
	}
	t.Run("all rows, with meters", func(t *testing.T) {
		rows, _ := interestRows()
		if got := southboundInterest(rows, &interestInputs{}); !got.isEmpty() {
			t.Errorf("%v", got)
		}
		rows.flows.Put(ovsdb.UUID{1}, &flow{ingress: true, meter: "dns", group: ovsdb.UUID{0x80}})
		rows.copp.meters.Put(ovsdb.UUID{0x81}, &meter{name: "dns", bands: []ovsdb.UUID{{0x82}}})
		got := southboundInterest(rows, &interestInputs{})
		if len(got) != 3 || got.format(tableMeter) != "name=dns" || got.format(tableGroup) != "_uuid=80" || got.format(tableBand) != "_uuid=82" {
			t.Errorf("%v", got)
		}
	})
}

func TestNorthboundInterest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		uses     uses
		switches []ovsdb.UUID
		plugged  string
		network  string
		want     map[string]string
	}{
		{"the switches of Southbound", uses{southbound: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{
			tableSwitch: "_uuid=11", tableSwitchPort: "_uuid=31 _uuid=32 _uuid=33", tableDNS: "_uuid=70", tableDHCP: "_uuid=60",
			tableRouter: "", tableRouterPort: "",
		}},
		{"their DNS servers", uses{southbound: true, dnsServers: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{tableDHCP: "_uuid=60 _uuid=61"}},
		{"their forwards", uses{southbound: true, forwards: true}, []ovsdb.UUID{{0x11}}, "", "", map[string]string{
			tableRouterPort: "name=r-net1", tableRouter: "ports=50",
		}},
		{"alone, by the interfaces", uses{}, nil, "vm new", "", map[string]string{
			tableSwitch: "ports=31", tableSwitchPort: "_uuid=31 _uuid=32 _uuid=33 name=new name=vm",
		}},
		{"alone, what routers join", uses{routerScopes: true}, nil, "vm", "", map[string]string{
			tableSwitch:     "_uuid=11 _uuid=12 ports=31",
			tableSwitchPort: "_uuid=31 _uuid=32 _uuid=33 name=vm type=localnet type=router",
		}},
		{"alone, a network by its name", uses{routerScopes: true}, nil, "", "net4", map[string]string{tableSwitch: "_uuid=14 name=net4", tableSwitchPort: "type=localnet type=router"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, rows := interestRows()
			in := interestInputs{uses: tt.uses, references: new(references), plugged: strings.Fields(tt.plugged)}
			slices.Sort(in.plugged)
			if in.local = true; tt.network != "" {
				in.references.networks = map[SwitchRef]int{{Name: tt.network}: 1}
			}
			got := northboundInterest(rows, tt.switches, &in)
			for table, want := range tt.want {
				if got.format(table) != want {
					t.Errorf("%s: %q, want %q", table, got.format(table), want)
				}
			}
		})
	}
	t.Run("all rows, and those of routers for forwards", func(t *testing.T) {
		_, rows := interestRows()
		in := &interestInputs{uses: uses{southbound: true}}
		if got := northboundInterest(rows, nil, in); !got.isEmpty() {
			t.Errorf("%v", got)
		}
		in.forwards = true
		got := northboundInterest(rows, nil, in).requests()
		for _, table := range []string{tableRouter, tableRouterPort} {
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
			m, now, gen := new(monitor), time.Unix(1000, 0), uint64(0)
			for step := range strings.SplitSeq(tt.steps, "; ") {
				verb, result, _ := strings.Cut(step, " ")
				verb, names, _ := strings.Cut(verb, ":")
				got := false
				switch verb {
				case "want":
					want := make(conditions)
					askEach(want, tablePort, strings.FieldsFunc(names, func(r rune) bool { return r == ',' }), portNamed)
					if got = m.want(want.sort(), now); got {
						gen++
						m.sent(gen)
					}
				case "ack":
					var n uint64
					if _, err := fmt.Sscan(result, &n); err != nil {
						t.Fatal(err)
					}
					m.acknowledge(n)
					continue
				case "pass":
					now = now.Add(narrowAfter)
					continue
				case "all":
					got = m.hasAll()
				case "has":
					got = m.has(tablePort, portNamed(names))
				}
				if got != (result == "yes" || result == "sends") {
					t.Errorf("%s: got %v", step, got)
				}
			}
		})
	}
}

func TestIncludes(t *testing.T) {
	set := func(chassis string, networks ...int) conditions {
		c := conditions{tablePort: {textIs("chassis", chassis)}}
		for _, n := range networks {
			c.ask(tableDatapath, rowWithID(ovsdb.UUID{byte(n)}))
		}
		return c.sort()
	}
	routers := set("hv1", 1)
	routers.ask(tablePort, textIs("type", kindLocalnet))
	routers.sort()
	for _, tt := range []struct {
		name        string
		asked, next conditions
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
