// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Northbound returns the conditions for the wanted rows of Northbound: switches, and rows that they refer to.
// With Southbound, switches are the switches of its conditions. Without it, s is nil, and Northbound requests switches
// with a port here, switches of requests, and switches that routers join to these.
func Northbound(n *topology.Northbound, s *topology.Southbound, switches []ovsdb.UUID, in *Inputs) Conditions {
	want := make(Conditions)
	askGroups(want, in, in.readsNorthboundGroups(), northboundGroups(n, s, in))
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
		// Without router scopes, other switches come by name only.
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

// joined are the switches that routers join to switches with a port here and to switches of requests.
func askByName(n *topology.Northbound, want Conditions, in *Inputs) (joined []ovsdb.UUID) {
	var from []ovsdb.UUID
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

var portsToRouters = textIs("type", ovn.TypeRouter)

func switchOfPort(port ovsdb.UUID) clause { return idIn("ports", port) }

func wantedDHCP(p *topology.SwitchPort, u Uses) (rows []ovsdb.UUID) {
	if p.DHCP.V4 != (ovsdb.UUID{}) {
		rows = append(rows, p.DHCP.V4)
	}
	if p.DHCP.V6 != (ovsdb.UUID{}) && u.DNSServers {
		rows = append(rows, p.DHCP.V6)
	}
	return rows
}

// With Southbound, router rows are only for forwards: northd does not copy external_ids of switches and
// routers (northd/northd.c, ovn_datapath_update_external_ids).

func askAllRouters(want Conditions, in *Inputs) {
	for _, table := range []string{topology.TableRouter, topology.TableRouterPort} {
		want.ask(table)
		if in.Forwards {
			want.ask(table, everyRow)
		}
	}
}

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

type tableClause struct {
	table string
	clause
}

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
