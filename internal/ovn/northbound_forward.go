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

// forwards returns the zones that a network forwards, nil for none. While the rows say the same it
// returns the Forwards of old, the previous version of the network.
func (n *northbound) forwards(of, old *Network) *Forwards {
	rows := n.forwardRows(of.ID)
	if f := forwardsOf(old); f != nil && slices.Equal(f.rows, rows) {
		return f
	}
	bad := of.replace(forwardKey).add
	return newForwards(of.ID, rows, func(row forwardRow) names.Report {
		return func(where, value string, err error) {
			bad(fmt.Sprintf("%s: %s: external_ids:%s: %.80q skipped: %v", northboundName, row.namedBy, where, value, err))
		}
	})
}

// forwardRows returns the rows with zones of a network, none without a request for Forwards.
func (n *northbound) forwardRows(id origin.Network) (all []forwardRow) {
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil || n.world.forwardUsers == 0 {
		return nil
	}
	if s.forward != "" {
		all = append(all, forwardRow{fmt.Sprintf("switch %.80q", s.name), s.forward})
	}
	for _, a := range forwardersOf(attachmentsOf(n, ovsdb.UUID(id))) {
		all = append(all, forwardRow{fmt.Sprintf("router %.80q", a.routerName), a.forward})
	}
	return all
}

// asksForRouters reports whether the rows of routers are read for forwards alone.
func (n *northbound) asksForRouters() bool { return n.world.sb != nil && n.world.forwardUsers > 0 }

// wantRouters adds to a coverage the routers of the switches that are wanted, where they are asked
// for.
func (n *northbound) wantRouters(cover *coverage) {
	if !n.asksForRouters() {
		return
	}
	for _, id := range cover.rows[tableSwitch] {
		cover.farPorts = append(cover.farPorts, n.routerRefs(id)...)
	}
	slices.SortFunc(cover.farPorts, comparePortRefs)
	cover.farPorts = slices.Compact(cover.farPorts)
}

// routerRefs returns the ports of the routers of a switch: their names, which ask for the rows of
// the ports, and the UUIDs of the known ones, which ask for their routers.
func (n *northbound) routerRefs(id ovsdb.UUID) (all []portRef) {
	for _, a := range attachmentsOf(n, id) {
		if a.routerPort == "" {
			continue
		}
		all = append(all, portRef{name: a.routerPort})
		if port := n.routerPortNamed[a.routerPort]; port != nil {
			all = append(all, portRef{id: port.id})
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
func (n *northbound) coversRouters(id ovsdb.UUID) bool {
	if !n.asksForRouters() {
		return true
	}
	for _, ref := range n.routerRefs(id) {
		if !n.acknowledged.coverage.hasFarPort(ref) {
			return false
		}
	}
	return true
}
