// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Coverage reports which rows have come: all rows with Monitor All, the rows of the conditions with Local.
type Coverage struct {
	Uses
	Southbound                           *topology.Southbound
	Northbound                           *topology.Northbound
	SouthboundMonitor, NorthboundMonitor *Monitor
	// A wanted network stays covered, so a new port does not remove it from the snapshot.
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
		return true
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

// Node includes all links of a node.
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

// Peer reports whether the row of the other port of a link has come, if it exists.
func (c Coverage) Peer(port topology.Peer) bool {
	switch {
	case !c.Local:
		return true
	case c.Southbound != nil:
		return c.SouthboundMonitor.has(topology.TablePort, PortNamed(port.Name))
	}
	return c.NorthboundMonitor.has(topology.TableSwitch, switchOfPort(port.ID))
}

// Port reports whether the row of a port has come, if it exists.
func (c Coverage) Port(name string) bool {
	switch {
	case !c.Local:
		return true
	case c.Southbound != nil:
		return c.SouthboundMonitor.has(topology.TablePort, PortNamed(name))
	}
	return c.NorthboundMonitor.has(topology.TableSwitchPort, textIs("name", name))
}
