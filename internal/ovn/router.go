// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// router is a row of Logical_Router.
type router struct {
	name    string
	ports   []ovsdb.UUID
	forward string // forwardKey of external_ids
}

// routerPort is a row of Logical_Router_Port.
type routerPort struct {
	id         ovsdb.UUID
	name, peer string
	networks   []string // addresses with prefix lengths
}

func routerColumns() []rows.Column[router] {
	return []rows.Column[router]{
		rows.String("name", func(r *router) *string { return &r.name }),
		rows.UUIDs("ports", func(r *router) *[]ovsdb.UUID { return &r.ports }),
		rows.Key("external_ids", forwardKey, func(r *router) *string { return &r.forward }),
	}
}

func routerPortColumns() []rows.Column[routerPort] {
	return []rows.Column[routerPort]{
		rows.String("name", func(p *routerPort) *string { return &p.name }),
		rows.String("peer", func(p *routerPort) *string { return &p.peer }),
		rows.Strings("networks", func(p *routerPort) *[]string { return &p.networks }),
	}
}

func (n *northbound) routerChanged(id ovsdb.UUID, old, next *router) {
	var oldPorts, nextPorts []ovsdb.UUID
	if old != nil {
		oldPorts = old.ports
	}
	if next != nil {
		nextPorts = next.ports
	}
	n.markRouterPorts(oldPorts)
	n.markRouterPorts(nextPorts)
	if next != nil && slices.Equal(oldPorts, nextPorts) {
		return // a new router that joins nothing, or one with another name or other external_ids
	}
	n.routerOf.Replace(id, oldPorts, nextPorts)
	n.changes.node(id)
}

func (n *northbound) routerPortChanged(id ovsdb.UUID, old, next *routerPort) {
	if next != nil {
		next.id = id
		n.routerPortNamed[next.name] = next
		n.markRouterPort(next.name)
	}
	if old != nil {
		n.routerPortNamed.Remove(old.name, old)
		n.markRouterPort(old.name)
	}
	n.changes.node(n.routerOf[id])
	n.changes.interest = true // its router may be wanted
}

// markRouterPorts marks the networks of all those ports of routers.
func (n *northbound) markRouterPorts(ids []ovsdb.UUID) {
	for _, id := range ids {
		if p := n.routerPorts.Get(id); p != nil {
			n.markRouterPort(p.name)
		}
	}
}

// markRouterPort marks the networks of a router's port, by its name: those that it is a gateway
// of, or that tell the name of the router, or that forward what the router says.
func (n *northbound) markRouterPort(name string) {
	for id := range n.attached[name] {
		n.markPort(id, partRouters)
	}
}
