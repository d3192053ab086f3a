// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Northbound returns the conditions for the rows that are wanted of Northbound: switches, their ports, and
// what these refer to. Beside Southbound, the switches are those whose datapaths Southbound is asked for. Where
// Northbound is read alone, they are those that have a port here or that requests refer to, and what routers
// join to these.
func Northbound(n *topology.Northbound, switches []ovsdb.UUID, in *Inputs) Conditions {
	want := make(Conditions)
	if !in.Local {
		if in.Southbound {
			askAllRouters(want, in)
		}
		return want.Sort()
	}
	if in.Southbound {
		askRouters(n, want, switches, in)
	} else {
		switches = askByName(n, want, in)
	}
	askEach(want, topology.TableSwitch, switches, RowWithID)
	of := make(map[ovsdb.UUID]struct{}, len(switches))
	for _, id := range switches {
		of[id] = struct{}{}
	}
	want.ask(topology.TableSwitchPort)
	want.ask(topology.TableDNS)
	for id, s := range n.Switches.All() {
		// Without router scopes no other switch is asked for, except by its name.
		if _, ok := of[id]; ok || in.Southbound || !in.RouterScopes {
			askEach(want, topology.TableSwitchPort, s.Ports, RowWithID)
			askEach(want, topology.TableDNS, s.DNSRows, RowWithID)
		}
	}
	want.ask(topology.TableDHCP)
	for _, p := range n.Ports.All() {
		askEach(want, topology.TableDHCP, wantedDHCP(p, in.Uses), RowWithID)
	}
	return want.Sort()
}

// askByName asks for the ports that have an interface here, with their switches, and for the switches that
// requests refer to. It returns the switches that are joined to these, if router scopes are used.
func askByName(n *topology.Northbound, want Conditions, in *Inputs) (joined []ovsdb.UUID) {
	var from []ovsdb.UUID // of the switches, those that are known
	for _, name := range in.Plugged {
		want.ask(topology.TableSwitchPort, textIs("name", name))
		if p := n.PortNamed[name]; p != nil {
			want.ask(topology.TableSwitch, switchOfPort(p.ID))
			if s, ok := n.SwitchOf[p.ID]; ok {
				from = append(from, s)
			}
		}
	}
	for _, r := range in.References.Sorted() {
		if r.Name != "" {
			want.ask(topology.TableSwitch, textIs("name", r.Name))
		} else {
			want.ask(topology.TableSwitch, RowWithID(ovsdb.UUID(r.ID)))
		}
	}
	if !in.RouterScopes {
		return nil
	}
	for id, s := range n.Switches.All() {
		if in.References.Has(s.Name, origin.Network(id)) {
			from = append(from, id)
		}
	}
	// All ports that join are read, of whatever switch.
	want.ask(topology.TableSwitchPort, portsToRouters, Localnets)
	nodes, peers := topology.Reach(n, from)
	for _, id := range nodes {
		if n.Switches.Get(id) != nil {
			joined = append(joined, id)
		}
	}
	askEach(want, topology.TableSwitch, peers, func(p topology.Peer) clause { return switchOfPort(p.ID) })
	return joined
}

// portsToRouters is the clause for all ports of switches that lead to routers.
var portsToRouters = textIs("type", ovn.TypeRouter)

// switchOfPort is the clause for the switch that has a port.
func switchOfPort(port ovsdb.UUID) clause { return idIn("ports", port) }

// wantedDHCP returns the DHCP_Options rows that are read for a port: the row for IPv4 has the domain.
func wantedDHCP(p *topology.SwitchPort, u Uses) (rows []ovsdb.UUID) {
	if p.DHCP.V4 != (ovsdb.UUID{}) {
		rows = append(rows, p.DHCP.V4)
	}
	if p.DHCP.V6 != (ovsdb.UUID{}) && u.DNSServers {
		rows = append(rows, p.DHCP.V6)
	}
	return rows
}

// Beside Southbound, the rows of routers are read for forwards alone: northd copies the external_ids of neither
// switches nor routers (northd/northd.c, ovn_datapath_update_external_ids). They are asked for step by step: the
// ports of type router of a switch name the ports of routers, and these are in the column ports of the routers.

// askAllRouters asks for all rows of routers, or for none.
func askAllRouters(want Conditions, in *Inputs) {
	for _, table := range []string{topology.TableRouter, topology.TableRouterPort} {
		want.ask(table)
		if in.Forwards {
			want.ask(table, everyRow)
		}
	}
}

// askRouters asks for the routers of switches.
func askRouters(n *topology.Northbound, want Conditions, switches []ovsdb.UUID, in *Inputs) {
	want.ask(topology.TableRouter)
	want.ask(topology.TableRouterPort)
	if !in.Forwards {
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
func routerClauses(n *topology.Northbound, id ovsdb.UUID) func(yield func(tableClause) bool) {
	return func(yield func(tableClause) bool) {
		for _, a := range topology.AttachmentsOf(n, id) {
			if a.RouterPort == "" {
				continue
			}
			if !yield(tableClause{topology.TableRouterPort, textIs("name", a.RouterPort)}) {
				return
			}
			port := n.RouterPortNamed[a.RouterPort]
			if port != nil && !yield(tableClause{topology.TableRouter, idIn("ports", port.ID)}) {
				return
			}
		}
	}
}
