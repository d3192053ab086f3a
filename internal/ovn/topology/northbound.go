// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// Tables of ovn-nb(5), without DNS. Tables of routers are read completely with Northbound alone, otherwise
// for Requests.Forwards.
const (
	TableSwitch     = "Logical_Switch"
	TableSwitchPort = "Logical_Switch_Port"
	TableDHCP       = "DHCP_Options"
	TableRouter     = "Logical_Router"
	TableRouterPort = "Logical_Router_Port"
)

// Northbound is the rows of OVN_Northbound. Source.mu guards it.
type Northbound struct {
	Contents
	Switches    *rows.Table[LogicalSwitch]
	Ports       *rows.Table[SwitchPort]
	DHCP        *rows.Table[DHCPOptions]
	DNS         *rows.Table[NorthboundDNS]
	Routers     *rows.Table[Router]
	RouterPorts *rows.Table[RouterPort]
	// PortGroups has rows for the names of groups, if Southbound is not read, and for egress policies.
	PortGroups *portGroups[ovsdb.UUID]

	named     rows.Index[string, LogicalSwitch]
	PortNamed rows.Names[SwitchPort]
	SwitchOf  rows.Owners
	// dhcpOf has the ports of a DHCP_Options row, dnsOf the switches of a DNS row.
	dhcpOf rows.Index[ovsdb.UUID, SwitchPort]
	dnsOf  rows.Index[ovsdb.UUID, LogicalSwitch]

	RouterPortNamed rows.Names[RouterPort]
	routerOf        rows.Owners
	attached        rows.Index[string, SwitchPort]
}

// NewNorthbound returns the tables. where are the first conditions of most tables. alone is set if Southbound
// is not read.
func NewNorthbound(where []ovsdb.Condition, labelKeys func() []string, alone bool) *Northbound {
	n := &Northbound{
		named: make(rows.Index[string, LogicalSwitch]), PortNamed: make(rows.Names[SwitchPort]), SwitchOf: make(rows.Owners),
		dhcpOf:          make(rows.Index[ovsdb.UUID, SwitchPort]),
		dnsOf:           make(rows.Index[ovsdb.UUID, LogicalSwitch]),
		RouterPortNamed: make(rows.Names[RouterPort]), routerOf: make(rows.Owners),
		attached: make(rows.Index[string, SwitchPort]),
	}
	var routersWhere []ovsdb.Condition
	if !alone {
		routersWhere = []ovsdb.Condition{}         // until interest.Northbound requests some
		labelKeys = func() []string { return nil } // Port_Binding has them
	}
	n.Switches = rows.NewTable(TableSwitch, where, withProblems(&n.Changes, NorthboundName, TableSwitch, n.switchChanged), switchColumns()...)
	n.Ports = rows.NewTable(TableSwitchPort, where, withProblems(&n.Changes, NorthboundName, TableSwitchPort, n.portChanged), switchPortColumns(labelKeys)...)
	n.DHCP = rows.NewTable(TableDHCP, where, withProblems(&n.Changes, NorthboundName, TableDHCP, n.dhcpChanged), dhcpColumns()...)
	n.DNS = rows.NewTable(TableDNS, where, withProblems(&n.Changes, NorthboundName, TableDNS, n.dnsChanged), northboundDNSColumns(alone)...)
	n.Routers = rows.NewTable(TableRouter, routersWhere, n.routerChanged, routerColumns()...)
	n.RouterPorts = rows.NewTable(TableRouterPort, routersWhere, n.routerPortChanged, routerPortColumns()...)
	n.PortGroups = newNorthboundGroups(n)
	n.Tables = rows.Tables{n.Ports, n.DHCP, n.DNS, n.Switches, n.RouterPorts, n.Routers, n.PortGroups}
	return n
}

func (n *Northbound) Domain(id origin.Network) string {
	if s := n.Switches.Get(ovsdb.UUID(id)); s != nil {
		return s.domain
	}
	return ""
}

func (n *Northbound) NetworkIDs(yield func(origin.Network) bool) {
	for id := range n.Switches.All() {
		if !yield(origin.Network(id)) {
			return
		}
	}
}

func (n *Northbound) NetworksNamed(name string) (ids []origin.Network) {
	for id := range n.named[name] {
		ids = append(ids, origin.Network(id))
	}
	return ids
}
