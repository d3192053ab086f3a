// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Coverage reports which rows have come, of all that a database has: with Monitor All these are all rows, with
// Local the rows of the conditions.
type Coverage struct {
	Uses
	// Southbound and nb are nil if they are not read; of each, the monitor is set as well.
	Southbound                           *topology.Southbound
	Northbound                           *topology.Northbound
	SouthboundMonitor, NorthboundMonitor *Monitor
	// Networks has the networks that all databases have covered. A network stays covered while it is wanted: a
	// new port does not take it out of the snapshot until Northbound has sent the row of that port.
	Networks map[origin.Network]struct{}
}

// Network reports whether all rows of a network have come.
func (c Coverage) Network(id origin.Network) bool {
	if !c.Local {
		return true
	}
	if _, ok := c.Networks[id]; ok {
		return true
	}
	if c.Southbound != nil && !c.inSouthbound(id) || c.Northbound != nil && !c.inNorthbound(id) {
		return false
	}
	c.Networks[id] = struct{}{}
	return true
}

func (c Coverage) inSouthbound(id origin.Network) bool {
	for node := range c.Southbound.Networks[id] {
		if !c.SouthboundMonitor.has(topology.TablePort, portsOfDatapath(node)) || c.Attachments() && !c.routersInSouthbound(node) {
			return false
		}
	}
	return true
}

// routersInSouthbound reports whether all has come that the network of a datapath says of its routers.
func (c Coverage) routersInSouthbound(node ovsdb.UUID) bool {
	for _, a := range topology.AttachmentsOf(c.Southbound, node) {
		if !a.Known && !c.SouthboundMonitor.has(topology.TablePort, PortNamed(a.RouterPort)) {
			return false
		}
		if a.Known && c.RouterNames && c.Southbound.Datapaths.Get(a.Router) == nil && !c.SouthboundMonitor.has(topology.TableDatapath, RowWithID(a.Router)) {
			return false
		}
	}
	return true
}

func (c Coverage) inNorthbound(id origin.Network) bool {
	if c.Southbound != nil && !c.NorthboundMonitor.has(topology.TableSwitch, RowWithID(ovsdb.UUID(id))) {
		return false
	}
	s := c.Northbound.Switches.Get(ovsdb.UUID(id))
	if s == nil {
		return true // there is none, or it is gone
	}
	if !c.NorthboundMonitor.hasRows(topology.TableSwitchPort, s.Ports) || !c.NorthboundMonitor.hasRows(topology.TableDNS, s.DNSRows) {
		return false
	}
	if c.Southbound != nil && c.Forwards {
		for of := range routerClauses(c.Northbound, ovsdb.UUID(id)) {
			if !c.NorthboundMonitor.has(of.table, of.clause) {
				return false
			}
		}
	}
	for _, id := range s.Ports {
		if p := c.Northbound.Ports.Get(id); p != nil && !c.NorthboundMonitor.hasRows(topology.TableDHCP, wantedDHCP(p, c.Uses)) {
			return false
		}
	}
	return true
}

// Node reports whether the rows of a node of the graph, and of all its links, have come.
func (c Coverage) Node(node ovsdb.UUID) bool {
	if c.Southbound != nil {
		return c.Southbound.Datapaths.Get(node) != nil &&
			(!c.Local || c.SouthboundMonitor.has(topology.TablePort, Localnets) && c.SouthboundMonitor.has(topology.TablePort, portsOfDatapath(node)))
	}
	if c.Local && !c.NorthboundMonitor.has(topology.TableSwitchPort, portsToRouters) {
		return false
	}
	return c.Northbound.Routers.Get(node) != nil || c.Northbound.Switches.Get(node) != nil && c.Network(origin.Network(node))
}

// Peer reports whether the port at the other end of a link has come, if there is one.
func (c Coverage) Peer(port topology.Peer) bool {
	switch {
	case !c.Local:
		return true
	case c.Southbound != nil:
		return c.SouthboundMonitor.has(topology.TablePort, PortNamed(port.Name))
	}
	return c.NorthboundMonitor.has(topology.TableSwitch, switchOfPort(port.ID))
}

// Port reports whether the row of a port with a name has come, if there is one, whatever network the port
// is on.
func (c Coverage) Port(name string) bool {
	switch {
	case !c.Local:
		return true
	case c.Southbound != nil:
		return c.SouthboundMonitor.has(topology.TablePort, PortNamed(name))
	}
	return c.NorthboundMonitor.has(topology.TableSwitchPort, textIs("name", name))
}
