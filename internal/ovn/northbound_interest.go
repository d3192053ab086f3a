// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// northboundInterest returns the conditions for the rows that are wanted of Northbound: switches, their ports, and
// what these refer to. Beside Southbound, the switches are those whose datapaths Southbound is asked for. Where
// Northbound is read alone, they are those that have a port here or that requests refer to, and what routers
// join to these.
func northboundInterest(n *northbound, switches []ovsdb.UUID, in *interestInputs) conditions {
	want := make(conditions)
	if !in.local {
		if in.southbound {
			askAllRouters(want, in)
		}
		return want.sort()
	}
	if in.southbound {
		askRouters(n, want, switches, in)
	} else {
		switches = askByName(n, want, in)
	}
	askEach(want, tableSwitch, switches, rowWithID)
	of := make(map[ovsdb.UUID]struct{}, len(switches))
	for _, id := range switches {
		of[id] = struct{}{}
	}
	want.ask(tableSwitchPort)
	want.ask(tableDNS)
	for id, s := range n.switches.All() {
		// Without router scopes no other switch is asked for, except by its name.
		if _, ok := of[id]; ok || in.southbound || !in.routerScopes {
			askEach(want, tableSwitchPort, s.ports, rowWithID)
			askEach(want, tableDNS, s.dnsRows, rowWithID)
		}
	}
	want.ask(tableDHCP)
	for _, p := range n.ports.All() {
		askEach(want, tableDHCP, wantedDHCP(p, in.uses), rowWithID)
	}
	return want.sort()
}

// askByName asks for the ports that have an interface here, with their switches, and for the switches that
// requests refer to. It returns the switches that are joined to these, if router scopes are used.
func askByName(n *northbound, want conditions, in *interestInputs) (joined []ovsdb.UUID) {
	var from []ovsdb.UUID // of the switches, those that are known
	for _, name := range in.plugged {
		want.ask(tableSwitchPort, textIs("name", name))
		if p := n.portNamed[name]; p != nil {
			want.ask(tableSwitch, switchOfPort(p.id))
			if s, ok := n.switchOf[p.id]; ok {
				from = append(from, s)
			}
		}
	}
	for _, r := range in.references.sorted() {
		if r.Name != "" {
			want.ask(tableSwitch, textIs("name", r.Name))
		} else {
			want.ask(tableSwitch, rowWithID(ovsdb.UUID(r.ID)))
		}
	}
	if !in.routerScopes {
		return nil
	}
	for id, s := range n.switches.All() {
		if in.references.has(s.name, origin.Network(id)) {
			from = append(from, id)
		}
	}
	// All ports that join are read, of whatever switch.
	want.ask(tableSwitchPort, portsToRouters, localnets)
	nodes, peers := reach(n, from)
	for _, id := range nodes {
		if n.switches.Get(id) != nil {
			joined = append(joined, id)
		}
	}
	askEach(want, tableSwitch, peers, func(p portRef) clause { return switchOfPort(p.id) })
	return joined
}

// portsToRouters is the clause for all ports of switches that lead to routers.
var portsToRouters = textIs("type", kindRouter)

// switchOfPort is the clause for the switch that has a port.
func switchOfPort(port ovsdb.UUID) clause { return idIn("ports", port) }

// wantedDHCP returns the DHCP_Options rows that are read for a port: the row for IPv4 has the domain.
func wantedDHCP(p *switchPort, u uses) (rows []ovsdb.UUID) {
	if p.dhcp.v4 != (ovsdb.UUID{}) {
		rows = append(rows, p.dhcp.v4)
	}
	if p.dhcp.v6 != (ovsdb.UUID{}) && u.dnsServers {
		rows = append(rows, p.dhcp.v6)
	}
	return rows
}

// Beside Southbound, the rows of routers are read for forwards alone: northd copies the external_ids of neither
// switches nor routers (northd/northd.c, ovn_datapath_update_external_ids). They are asked for step by step: the
// ports of type router of a switch name the ports of routers, and these are in the column ports of the routers.

// askAllRouters asks for all rows of routers, or for none.
func askAllRouters(want conditions, in *interestInputs) {
	for _, table := range []string{tableRouter, tableRouterPort} {
		want.ask(table)
		if in.forwards {
			want.ask(table, everyRow)
		}
	}
}

// askRouters asks for the routers of switches.
func askRouters(n *northbound, want conditions, switches []ovsdb.UUID, in *interestInputs) {
	want.ask(tableRouter)
	want.ask(tableRouterPort)
	if !in.forwards {
		return
	}
	for _, id := range switches {
		for of := range routerClauses(n, id) {
			want.ask(of.table, of.clause)
		}
	}
}

// tableClause is a clause of a table.
type tableClause struct {
	table string
	clause
}

// routerClauses yields the clauses for the rows of the routers of a switch.
func routerClauses(n *northbound, id ovsdb.UUID) func(yield func(tableClause) bool) {
	return func(yield func(tableClause) bool) {
		for _, a := range attachmentsOf(n, id) {
			if a.routerPort == "" {
				continue
			}
			if !yield(tableClause{tableRouterPort, textIs("name", a.routerPort)}) {
				return
			}
			port := n.routerPortNamed[a.routerPort]
			if port != nil && !yield(tableClause{tableRouter, idIn("ports", port.id)}) {
				return
			}
		}
	}
}
