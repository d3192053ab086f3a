// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// covered reports which rows have come, of all that a database has: with Monitor All these are all rows, with
// Local the rows of the conditions.
type covered struct {
	uses
	// sb and nb are nil if they are not read; of each, the monitor is set as well.
	sb             *southbound
	nb             *northbound
	sbRows, nbRows *monitor
	// networks has the networks that all databases have covered. A network stays covered while it is wanted: a
	// new port does not take it out of the snapshot until Northbound has sent the row of that port.
	networks map[origin.Network]struct{}
}

// network reports whether all rows of a network have come.
func (c covered) network(id origin.Network) bool {
	if !c.local {
		return true
	}
	if _, ok := c.networks[id]; ok {
		return true
	}
	if c.sb != nil && !c.inSouthbound(id) || c.nb != nil && !c.inNorthbound(id) {
		return false
	}
	c.networks[id] = struct{}{}
	return true
}

func (c covered) inSouthbound(id origin.Network) bool {
	for node := range c.sb.networks[id] {
		if !c.sbRows.has(tablePort, portsOfDatapath(node)) || c.attachments() && !c.routersInSouthbound(node) {
			return false
		}
	}
	return true
}

// routersInSouthbound reports whether all has come that the network of a datapath says of its routers.
func (c covered) routersInSouthbound(node ovsdb.UUID) bool {
	for _, a := range attachmentsOf(c.sb, node) {
		if !a.known && !c.sbRows.has(tablePort, portNamed(a.routerPort)) {
			return false
		}
		if a.known && c.routerNames && c.sb.datapaths.Get(a.router) == nil && !c.sbRows.has(tableDatapath, rowWithID(a.router)) {
			return false
		}
	}
	return true
}

func (c covered) inNorthbound(id origin.Network) bool {
	if c.southbound && !c.nbRows.has(tableSwitch, rowWithID(ovsdb.UUID(id))) {
		return false
	}
	s := c.nb.switches.Get(ovsdb.UUID(id))
	if s == nil {
		return true // there is none, or it is gone
	}
	if !c.nbRows.hasRows(tableSwitchPort, s.ports) || !c.nbRows.hasRows(tableDNS, s.dnsRows) {
		return false
	}
	if c.southbound && c.forwards {
		for of := range routerClauses(c.nb, ovsdb.UUID(id)) {
			if !c.nbRows.has(of.table, of.clause) {
				return false
			}
		}
	}
	for _, id := range s.ports {
		if p := c.nb.ports.Get(id); p != nil && !c.nbRows.hasRows(tableDHCP, wantedDHCP(p, c.uses)) {
			return false
		}
	}
	return true
}

// node reports whether the rows of a node of the graph, and of all its links, have come.
func (c covered) node(node ovsdb.UUID) bool {
	if c.sb != nil {
		return c.sb.datapaths.Get(node) != nil &&
			(!c.local || c.sbRows.has(tablePort, localnets) && c.sbRows.has(tablePort, portsOfDatapath(node)))
	}
	if c.local && !c.nbRows.has(tableSwitchPort, portsToRouters) {
		return false
	}
	return c.nb.routers.Get(node) != nil || c.nb.switches.Get(node) != nil && c.network(origin.Network(node))
}

// peer reports whether the port at the other end of a link has come, if there is one.
func (c covered) peer(port portRef) bool {
	switch {
	case !c.local:
		return true
	case c.sb != nil:
		return c.sbRows.has(tablePort, portNamed(port.name))
	}
	return c.nbRows.has(tableSwitch, switchOfPort(port.id))
}

// port reports whether the row of a port with a name has come, if there is one, whatever network the port
// is on.
func (c covered) port(name string) bool {
	switch {
	case !c.local:
		return true
	case c.sb != nil:
		return c.sbRows.has(tablePort, portNamed(name))
	}
	return c.nbRows.has(tableSwitchPort, textIs("name", name))
}
