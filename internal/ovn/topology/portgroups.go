// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
	"github.com/puntdns/puntdns/internal/policy"
)

const TablePortGroup = "Port_Group"

// portGroups refers to a port by K: its name in Southbound, its row in Northbound.
type portGroups[K comparable] struct {
	*rows.Table[portGroup[K]]
	compare func(a, b K) int
	// nameOf returns the name of a group in Northbound by its name in the table.
	nameOf func(string) string
	// stored has the result of of for each port that it was called for. A group may have 10,000 ports, and few of
	// them are guests here, so only these have an entry.
	stored map[K]memberships
	// changed is called for each port whose entry in stored is out of date.
	changed func(port K)
}

type portGroup[K any] struct {
	problem.Set
	name   string
	ports  []K    // sorted
	egress egress // in Northbound only
}

// membership is what a port has from one of its groups: the name of the group in Northbound, and the egress policy of
// the group, nil for none. It is zero if the port is not in the group.
type membership struct {
	name   string
	egress *policy.Policy
}

// memberships is what a port has from all its groups.
type memberships struct {
	// names are sorted, each once, separated by commas.
	names  string
	egress []*policy.Policy // in the order of the names
}

func newSouthboundGroups(s *Southbound) *portGroups[string] {
	g := &portGroups[string]{compare: strings.Compare, nameOf: northboundGroup, changed: s.markPortNamed}
	return g.read(g.rowChanged,
		rows.Strings("ports", func(g *portGroup[string]) *[]string { return &g.ports }),
		rows.String("name", func(g *portGroup[string]) *string { return &g.name }))
}

func newNorthboundGroups(n *Northbound) *portGroups[ovsdb.UUID] {
	name := func(name string) string { return name }
	g := &portGroups[ovsdb.UUID]{compare: ovsdb.UUID.Compare, nameOf: name, changed: func(port ovsdb.UUID) { n.markPort(port, PartPorts) }}
	parse := func(id ovsdb.UUID, g *portGroup[ovsdb.UUID]) {
		g.egress.parse(TablePortGroup, g.name, g.Report(NorthboundName, TablePortGroup, id, columnEgress))
	}
	return g.read(withProblems(&n.Changes, NorthboundName, TablePortGroup, g.rowChanged),
		rows.UUIDs("ports", func(g *portGroup[ovsdb.UUID]) *[]ovsdb.UUID { return &g.ports }),
		rows.Key(columnIDs, ovn.EgressKey, func(g *portGroup[ovsdb.UUID]) *string { return &g.egress.text }).Then(parse),
		rows.String("name", func(g *portGroup[ovsdb.UUID]) *string { return &g.name }).Then(parse))
}

// read creates the table, which has no rows until conditions request some.
func (g *portGroups[K]) read(changed func(ovsdb.UUID, *portGroup[K], *portGroup[K]), columns ...rows.Column[portGroup[K]]) *portGroups[K] {
	g.stored = make(map[K]memberships)
	g.Table = rows.NewTable(TablePortGroup, []ovsdb.Condition{}, changed, columns...)
	return g
}

// northboundGroup returns the Northbound name of a group. Southbound has a row "KEY_NAME" for each switch,
// with the switch's tunnel key (get_sb_port_group_name in lib/ovn-util.h of OVN).
func northboundGroup(name string) string {
	key, rest, ok := strings.Cut(name, "_")
	if !ok || key == "" || strings.Trim(key, "0123456789") != "" {
		return name
	}
	return rest
}

// membership returns what the port has from a group, which may be nil.
func (g *portGroups[K]) membership(port K, in *portGroup[K]) membership {
	if in == nil {
		return membership{}
	}
	if _, ok := slices.BinarySearchFunc(in.ports, port, g.compare); !ok {
		return membership{}
	}
	return membership{g.nameOf(in.name), in.egress.policy}
}

// of returns what a port has from the groups that it is in.
func (g *portGroups[K]) of(port K) memberships {
	if known, ok := g.stored[port]; ok {
		return known
	}
	var all []membership
	for _, group := range g.All() {
		if m := g.membership(port, group); m.name != "" {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b membership) int { return strings.Compare(a.name, b.name) })
	var names []string
	var of memberships
	for _, m := range all {
		names = append(names, m.name)
		if m.egress != nil {
			of.egress = append(of.egress, m.egress)
		}
	}
	of.names = strings.Join(slices.Compact(names), ",")
	g.stored[port] = of
	return of
}

func (g *portGroups[K]) rowChanged(_ ovsdb.UUID, old, next *portGroup[K]) {
	for port := range g.stored {
		if g.membership(port, old) != g.membership(port, next) {
			g.forget(port)
			g.changed(port)
		}
	}
}

// Call forget when the row of the port changes.
func (g *portGroups[K]) forget(port K) { delete(g.stored, port) }

// GroupsOf returns the names of the groups that a port is in, sorted, each once, separated by commas. The result is
// stored until the row of the port or its groups change.
func (s *Southbound) GroupsOf(port string) string { return s.PortGroups.of(port).names }

func (n *Northbound) GroupsOf(port string) string {
	if p := n.PortNamed[port]; p != nil {
		return n.PortGroups.of(p.ID).names
	}
	return ""
}
