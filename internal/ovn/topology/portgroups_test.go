// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func TestNorthboundGroup(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"7_web", "web"},
		{"7_web_2", "web_2"},
		{"16711680_7_web", "7_web"},
		{"7__web", "_web"},
		{"web", "web"},
		{"web_7", "web_7"},
		{"7a_web", "7a_web"},
		{"_web", "_web"},
		{"7", "7"},
		{"", ""},
	} {
		if got := northboundGroup(tt.name); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A script changes groups, and asks for the groups of ports before each change. The ports p1 and p2 are on the network
// 1, and q1 on the network 2. The network of a port is marked only if the port's groups have changed.
func TestPortGroups(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		// asked are the ports that GroupsOf is called for. want has their groups after the steps, and the networks that
		// the last step marks.
		asked, want string
	}{
		{"in no group", "1=5_a:p2", "p1", "p1= marked:"},
		{"in one", "1=5_a:p1,p2", "p1 p2", "p1=a p2=a marked: 1"},
		{"sorted", "1=5_b:p1; 2=5_a:p1,p2; 3=5_c:p1", "p1", "p1=a,b,c marked: 1"},
		{"each once", "1=5_a:p1; 2=6_a:p1", "p1", "p1=a marked: 1"},
		{"joins", "1=5_a:p2; 1=5_a:p1,p2", "p1 p2", "p1=a p2=a marked: 1"},
		{"leaves", "1=5_a:p1,p2; 1=5_a:p2", "p1 p2", "p1= p2=a marked: 1"},
		{"a port that nothing asked for joins", "1=5_a:p1; 1=5_a:p1,q1", "p1", "p1=a marked:"},
		{"a port of another network joins", "1=5_a:p1; 1=5_a:p1,q1", "p1 q1", "p1=a q1=a marked: 2"},
		{"a port without a row joins", "1=5_a:p1; 1=5_a:none,p1", "none p1", "none=a p1=a marked:"},
		{"another name", "1=5_a:p1,q1; 1=5_b:p1,q1", "p1 q1", "p1=b q1=b marked: 1 2"},
		{"another tunnel key", "1=5_a:p1,q1; 1=6_a:p1,q1", "p1 q1", "p1=a q1=a marked:"},
		{"the group goes", "1=5_a:p1; 2=5_b:p1,q1; 2-", "p1 q1", "p1=a q1= marked: 1 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSouthbound(nil, func() []string { return nil })
			s.IsReadByName = func(string) bool { return false }
			for i := range byte(2) {
				s.Datapaths.Put(ovsdb.UUID{i + 1}, &Datapath{Network: origin.Network{i + 1}})
			}
			for i, name := range []string{"p1", "p2", "q1"} {
				s.Ports.Put(ovsdb.UUID{byte(i + 1)}, &PortBinding{PortRow: PortRow{LogicalPort: ovn.LogicalPort{Name: name}}, Datapath: ovsdb.UUID{byte(i/2 + 1)}})
			}
			groups := func() (all string) {
				for _, port := range strings.Fields(tt.asked) {
					all += port + "=" + s.GroupsOf(port) + " "
				}
				return all
			}
			for step := range strings.SplitSeq(tt.steps, "; ") {
				groups()
				s.Changes.Take()
				id := ovsdb.UUID{step[0]}
				if name, ports, ok := strings.Cut(step[2:], ":"); ok {
					s.PortGroups.Put(id, &portGroup[string]{name: name, ports: strings.Split(ports, ",")})
				} else {
					s.PortGroups.Put(id, nil)
				}
			}
			var marked []string
			for id, part := range s.Changes.Networks {
				if part&PartPorts != 0 {
					marked = append(marked, fmt.Sprint(id[0]))
				}
			}
			slices.Sort(marked)
			if got := strings.TrimSpace(groups() + "marked: " + strings.Join(marked, " ")); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A port that has gone leaves nothing.
func TestPortGroupsForget(t *testing.T) {
	s, n := NewSouthbound(nil, func() []string { return nil }), NewNorthbound(nil, func() []string { return nil }, true)
	s.IsReadByName = func(string) bool { return false }
	id, row := ovsdb.UUID{1}, PortRow{LogicalPort: ovn.LogicalPort{Name: "p1"}}
	s.Ports.Put(id, &PortBinding{PortRow: row})
	n.Ports.Put(id, &SwitchPort{PortRow: row})
	s.PortGroups.Put(id, &portGroup[string]{name: "5_a", ports: []string{"p1"}})
	n.PortGroups.Put(id, &portGroup[ovsdb.UUID]{name: "5_a", ports: []ovsdb.UUID{id}})
	if got, alone := s.GroupsOf("p1"), n.GroupsOf("p1"); got != "a" || alone != "5_a" {
		t.Errorf("groups %q in Southbound, %q in Northbound", got, alone)
	}
	s.Ports.Put(id, nil)
	n.Ports.Put(id, nil)
	if len(s.PortGroups.stored)+len(n.PortGroups.stored) > 0 {
		t.Errorf("stored: %v, %v", s.PortGroups.stored, n.PortGroups.stored)
	}
	if got := n.GroupsOf("p1"); got != "" {
		t.Errorf("groups %q without a port", got)
	}
}

// BenchmarkPortGroupChange adds and removes a port of a group of 10,000 ports, as a database does, while 100 of the
// ports are guests here that are in 20 groups each.
func BenchmarkPortGroupChange(b *testing.B) {
	const count, guests = 10_000, 100
	s := NewSouthbound(nil, func() []string { return nil })
	ports := make([]string, count)
	for i := range ports {
		ports[i] = fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i)
	}
	slices.Sort(ports)
	for i := range byte(20) {
		s.PortGroups.Put(ovsdb.UUID{i}, &portGroup[string]{name: fmt.Sprintf("5_pg%d", i), ports: ports})
	}
	for i := range guests {
		s.GroupsOf(ports[i*count/guests])
	}
	without := slices.Delete(slices.Clone(ports), 1, 2)
	of := [2]*portGroup[string]{{name: "5_pg0", ports: without}, {name: "5_pg0", ports: ports}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.PortGroups.Put(ovsdb.UUID{0}, of[i%2])
	}
}
