// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// What a network forwards is in Northbound alone: northd copies the external_ids of neither
// switches nor routers (northd/northd.c, ovn_datapath_update_external_ids). Where Southbound is
// read too, the routers of a switch are asked for step by step: its ports of type router name
// the ports of routers, and these are in the column ports of the routers.

// forwards returns what a network forwards, nil for nothing. It is that of old, an earlier version
// of the network, where the rows say the same.
func (n *northbound) forwards(id origin.Network, old *Network) *Forwards {
	rows := n.forwardRows(id)
	if f := forwardsOf(old); f != nil && slices.Equal(f.rows, rows) {
		return f
	}
	bad := n.world.beginBad(badOfNetwork(id), badPlace{"external_ids", forwardKey})
	return newForwards(id, rows, func(row forwardRow) names.Report {
		return func(where, value string, err error) {
			bad(fmt.Sprintf("%s: %s: external_ids:%s: %.80q skipped: %v", northboundName, row.namedBy, where, value, err))
		}
	})
}

// forwardRows returns the rows that say what a network forwards, none unless somebody asks for that.
func (n *northbound) forwardRows(id origin.Network) (all []forwardRow) {
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil || n.world.forwardUsers == 0 {
		return nil
	}
	if s.forward != "" {
		all = append(all, forwardRow{fmt.Sprintf("switch %.80q", s.name), s.forward})
	}
	for _, r := range n.forwardRouters(s) {
		all = append(all, forwardRow{fmt.Sprintf("router %.80q", r.name), r.forward})
	}
	return all
}

// forwardRouters returns the routers that a switch is attached to and that forward zones, in the
// order in which they count. It is none where the routers of many tenants meet, see maxGateways
// and ownerExternal.
func (n *northbound) forwardRouters(s *logicalSwitch) (all []forwardRouter) {
	attached := 0
	for p, port := range n.attachments(s) {
		if attached++; attached > maxGateways {
			return nil
		}
		if port == nil || p.owner == ownerExternal {
			continue
		}
		id := n.routerOf[port.id]
		if r := n.routers.Get(id); r != nil && r.forward != "" {
			all = append(all, forwardRouter{id.String(), r})
		}
	}
	slices.SortFunc(all, compareForwardRouters)
	// A switch may be attached to a router twice.
	return slices.CompactFunc(all, func(a, b forwardRouter) bool { return a.id == b.id })
}

// asksForRouters reports whether the rows of routers are read for forwards alone.
func (n *northbound) asksForRouters() bool { return n.world.sb != nil && n.world.forwardUsers > 0 }

// wantRouters adds to a coverage the routers of the switches that are wanted, where they are asked
// for. Each farPort with a name is a port of a router, one with a UUID the router that has it.
func (n *northbound) wantRouters(cover *coverage) {
	if !n.asksForRouters() {
		return
	}
	for _, id := range cover.rows[tableSwitch] {
		for _, p := range n.routerAttachments(n.switches.Get(id)) {
			cover.farPorts = append(cover.farPorts, portRef{name: p.routerPort})
			if port := n.routerPortNamed[p.routerPort]; port != nil {
				cover.farPorts = append(cover.farPorts, portRef{id: port.id})
			}
		}
	}
	slices.SortFunc(cover.farPorts, comparePortRefs)
	cover.farPorts = slices.Compact(cover.farPorts)
}

// routerAttachments returns the ports of a switch that name ports of routers, none where the
// routers of many tenants meet. The switch may be nil.
func (n *northbound) routerAttachments(s *logicalSwitch) (all []*switchPort) {
	if s == nil {
		return nil
	}
	attached := 0
	for p := range n.attachments(s) {
		if attached++; attached > maxGateways {
			return nil
		}
		if p.routerPort != "" && p.owner != ownerExternal {
			all = append(all, p)
		}
	}
	return all
}

// routerConditions ask for the rows of a coverage by wantRouters.
func routerConditions(cover coverage) map[string][]ovsdb.Condition {
	ports, routers := []ovsdb.Condition{}, []ovsdb.Condition{}
	for _, ref := range cover.farPorts {
		if ref.name != "" {
			ports = append(ports, ovsdb.Condition{Column: "name", Function: "==", Value: ref.name})
		} else {
			routers = append(routers, ovsdb.Condition{Column: "ports", Function: "includes", Value: ref.id})
		}
	}
	return map[string][]ovsdb.Condition{tableRouterPort: ports, tableRouter: routers}
}

// setRouterConditions asks for all routers or for none, where all else is read as a whole.
func (n *northbound) setRouterConditions(now time.Time) {
	if n.world.sb == nil || n.latest.gen == 0 && n.world.forwardUsers == 0 {
		return // they are read as a whole, or nobody has asked for them
	}
	where := []ovsdb.Condition{}
	if n.asksForRouters() {
		where = nil
	}
	n.set(coverage{routers: n.asksForRouters()}, nil, map[string][]ovsdb.Condition{tableRouter: where, tableRouterPort: where}, now)
}

// coversRouters reports whether the rows of all routers are read that a switch is attached to.
func (n *northbound) coversRouters(s *logicalSwitch) bool {
	if !n.asksForRouters() {
		return true
	}
	for _, p := range n.routerAttachments(s) {
		if !n.acknowledged.coverage.hasFarPort(portRef{name: p.routerPort}) {
			return false
		}
		if port := n.routerPortNamed[p.routerPort]; port != nil && !n.acknowledged.coverage.hasFarPort(portRef{id: port.id}) {
			return false
		}
	}
	return true
}
