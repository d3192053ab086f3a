// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type Router struct {
	Name    string
	Ports   []ovsdb.UUID
	forward string
}

type RouterPort struct {
	ID         ovsdb.UUID
	Name, peer string
	networks   []string // addresses with prefix lengths
}

func routerColumns() []rows.Column[Router] {
	return []rows.Column[Router]{
		rows.String("name", func(r *Router) *string { return &r.Name }),
		rows.UUIDs("ports", func(r *Router) *[]ovsdb.UUID { return &r.Ports }),
		rows.Key("external_ids", ovn.ForwardKey, func(r *Router) *string { return &r.forward }),
	}
}

func routerPortColumns() []rows.Column[RouterPort] {
	return []rows.Column[RouterPort]{
		rows.String("name", func(p *RouterPort) *string { return &p.Name }),
		rows.String("peer", func(p *RouterPort) *string { return &p.peer }),
		rows.Strings("networks", func(p *RouterPort) *[]string { return &p.networks }),
	}
}

func (n *Northbound) routerChanged(id ovsdb.UUID, old, next *Router) {
	var oldPorts, nextPorts []ovsdb.UUID
	if old != nil {
		oldPorts = old.Ports
	}
	if next != nil {
		nextPorts = next.Ports
	}
	n.markRouterPorts(oldPorts)
	n.markRouterPorts(nextPorts)
	if next != nil && slices.Equal(oldPorts, nextPorts) {
		return
	}
	n.routerOf.Replace(id, oldPorts, nextPorts)
	n.Changes.node(id)
}

func (n *Northbound) routerPortChanged(id ovsdb.UUID, old, next *RouterPort) {
	if next != nil {
		next.ID = id
		n.RouterPortNamed[next.Name] = next
		n.markRouterPort(next.Name)
	}
	if old != nil {
		n.RouterPortNamed.Remove(old.Name, old)
		n.markRouterPort(old.Name)
	}
	n.Changes.node(n.routerOf[id])
	n.Changes.Interest = true
}

func (n *Northbound) markRouterPorts(ids []ovsdb.UUID) {
	for _, id := range ids {
		if p := n.RouterPorts.Get(id); p != nil {
			n.markRouterPort(p.Name)
		}
	}
}

// The networks of a router port have the router's addresses, name and zones.
func (n *Northbound) markRouterPort(name string) {
	for id := range n.attached[name] {
		n.markPort(id, PartRouters)
	}
}
