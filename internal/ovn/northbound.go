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
	contents
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

// newNorthbound returns the tables of Northbound. where are the first conditions of most, labelKeys are the keys
// of external_ids that are read, and alone is set without Southbound.
func newNorthbound(where []ovsdb.Condition, labelKeys func() []string, alone bool) *northbound {
	n := &northbound{
		named: make(rows.Index[string, logicalSwitch]), portNamed: make(rows.Names[switchPort]), switchOf: make(rows.Owners),
		dhcpOf:          make(rows.Index[ovsdb.UUID, switchPort]),
		dnsOf:           make(rows.Index[ovsdb.UUID, logicalSwitch]),
		routerPortNamed: make(rows.Names[routerPort]), routerOf: make(rows.Owners),
		attached: make(rows.Index[string, switchPort]),
	}
	var routersWhere []ovsdb.Condition
	if !alone {
		routersWhere = []ovsdb.Condition{}         // none until northboundInterest asks for some
		labelKeys = func() []string { return nil } // Port_Binding has them
	}
	n.switches = rows.NewTable(tableSwitch, where, withProblems(&n.changes, northboundName, tableSwitch, n.switchChanged), switchColumns()...)
	n.ports = rows.NewTable(tableSwitchPort, where, withProblems(&n.changes, northboundName, tableSwitchPort, n.portChanged), switchPortColumns(labelKeys)...)
	n.dhcp = rows.NewTable(tableDHCP, where, withProblems(&n.changes, northboundName, tableDHCP, n.dhcpChanged), dhcpColumns()...)
	n.dns = rows.NewTable(tableDNS, where, withProblems(&n.changes, northboundName, tableDNS, n.dnsChanged), northboundDNSColumns(alone)...)
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
