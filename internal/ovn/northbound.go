// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// The tables of ovn-nb(5) that are read, DNS aside. Those of routers are read as a whole where
// there is no Southbound, else for Requests.Forwards.
const (
	tableSwitch     = "Logical_Switch"
	tableSwitchPort = "Logical_Switch_Port"
	tableDHCP       = "DHCP_Options"
	tableRouter     = "Logical_Router"
	tableRouterPort = "Logical_Router_Port"
)

// northbound is the rows of OVN_Northbound. Source.mu guards it.
type northbound struct {
	connection
	world *world
	// follows is the generation of Southbound's conditions that those here are for.
	follows uint64

	switches    *rows.Table[logicalSwitch]
	ports       *rows.Table[switchPort]
	dhcp        *rows.Table[dhcpOptions]
	dns         *rows.Table[northboundDNS]
	routers     *rows.Table[router]
	routerPorts *rows.Table[routerPort]

	// named has the switches of a name.
	named     rows.Index[string, logicalSwitch]
	portNamed rows.Names[switchPort]
	switchOf  rows.Owners // of a port
	// dhcpOf has the ports of a DHCP_Options row, dnsOf the switches of a DNS row.
	dhcpOf rows.Index[ovsdb.UUID, switchPort]
	dnsOf  rows.Index[ovsdb.UUID, logicalSwitch]

	routerPortNamed rows.Names[routerPort]
	routerOf        rows.Owners // of a port
	// attached has the ports of switches by the router port that they name.
	attached rows.Index[string, switchPort]
}

func newNorthbound(w *world) *northbound {
	n := &northbound{
		connection: newConnection(northboundName), world: w,
		named: make(rows.Index[string, logicalSwitch]), portNamed: make(rows.Names[switchPort]), switchOf: make(rows.Owners),
		dhcpOf:          make(rows.Index[ovsdb.UUID, switchPort]),
		dnsOf:           make(rows.Index[ovsdb.UUID, logicalSwitch]),
		routerPortNamed: make(rows.Names[routerPort]), routerOf: make(rows.Owners),
		attached: make(rows.Index[string, switchPort]),
	}
	where := w.firstConditions()
	n.switches = rows.NewTable(tableSwitch, where, withProblems(&n.changes, northboundName, tableSwitch, n.switchChanged), switchColumns()...)
	n.ports = rows.NewTable(tableSwitchPort, where, withProblems(&n.changes, northboundName, tableSwitchPort, n.portChanged), w.switchPortColumns()...)
	n.dhcp = rows.NewTable(tableDHCP, where, withProblems(&n.changes, northboundName, tableDHCP, n.dhcpChanged), dhcpColumns()...)
	n.dns = rows.NewTable(tableDNS, where, withProblems(&n.changes, northboundName, tableDNS, n.dnsChanged), northboundDNSColumns(w.sb == nil)...)
	var routersWhere []ovsdb.Condition
	if w.sb != nil {
		routersWhere = []ovsdb.Condition{} // none until setRouterConditions or setConditions
	}
	n.routers = rows.NewTable(tableRouter, routersWhere, n.routerChanged, routerColumns()...)
	n.routerPorts = rows.NewTable(tableRouterPort, routersWhere, n.routerPortChanged, routerPortColumns()...)
	n.tables = rows.Tables{n.ports, n.dhcp, n.dns, n.switches, n.routerPorts, n.routers}
	return n
}

// domain returns the domain of a switch by Northbound, "" if it has none.
func (n *northbound) domain(id origin.Network) string {
	if s := n.switches.Get(ovsdb.UUID(id)); s != nil {
		return s.domain
	}
	return ""
}

// complete adds to a port what only Northbound has: the addresses that northd
// chose, the domain of its DHCP options, and whether it is disabled. A row of
// that name on another switch is not of this port: northd has not moved the port yet.
func (n *northbound) complete(id origin.Network, l *logicalPort) {
	p := n.portNamed[l.name]
	if p == nil || n.switchOf[p.id] != ovsdb.UUID(id) {
		return
	}
	l.addresses, l.macs = p.allAddresses(), p.allMACs()
	l.disabled = p.disabled
	l.dhcp = p.dhcp
	if d := n.dhcp.Get(p.dhcp.v4); d != nil && d.domain != "" {
		l.domain = d.domain
	}
}

// The methods of topology follow, for where Northbound is read alone.

func (n *northbound) networkIDs(yield func(origin.Network) bool) {
	for id := range n.switches.All() {
		if !yield(origin.Network(id)) {
			return
		}
	}
}

func (n *northbound) networksNamed(name string) (ids []origin.Network) {
	for id := range n.named[name] {
		ids = append(ids, origin.Network(id))
	}
	return ids
}

func (n *northbound) describe(to *Network) (dns []*dnsRow, ok bool) {
	s := n.switches.Get(ovsdb.UUID(to.ID))
	if s == nil {
		return nil, false
	}
	to.Name = s.name
	for _, id := range s.dnsRows {
		if r := n.dns.Get(id); r != nil {
			dns = append(dns, &r.dnsRow)
		}
	}
	return dns, true
}

func (n *northbound) addPorts(b *portsBuilder) {
	s := n.switches.Get(ovsdb.UUID(b.network.ID))
	for _, id := range s.ports {
		p := n.ports.Get(id)
		if p == nil {
			continue
		}
		l := logicalPort{
			name: p.name, kind: effectiveKind(p.kind, p.owner, p.function), parent: p.parent, tag: p.tag,
			hostname: p.canonical, domain: b.network.Domain, local: n.world.isPlugged(p.name), ids: p.ids,
		}
		n.complete(b.network.ID, &l)
		b.add(l)
	}
}
