// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/rows"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// router is a row of Logical_Router.
type router struct {
	ports []ovsdb.UUID
}

// routerPort is a row of Logical_Router_Port.
type routerPort struct {
	id         ovsdb.UUID
	name, peer string
}

func routerColumns() []rows.Column[router] {
	return []rows.Column[router]{rows.UUIDs("ports", func(r *router) *[]ovsdb.UUID { return &r.ports })}
}

func routerPortColumns() []rows.Column[routerPort] {
	return []rows.Column[routerPort]{
		rows.String("name", func(p *routerPort) *string { return &p.name }),
		rows.String("peer", func(p *routerPort) *string { return &p.peer }),
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
	if next != nil && slices.Equal(oldPorts, nextPorts) {
		return // a new router that joins nothing
	}
	n.routerOf.Replace(id, oldPorts, nextPorts)
	n.touchNode(id)
}

func (n *northbound) routerPortChanged(id ovsdb.UUID, old, next *routerPort) {
	if next != nil {
		next.id = id
		n.routerPortNamed[next.name] = next
	}
	if old != nil {
		n.routerPortNamed.Remove(old.name, old)
	}
	n.touchNode(n.routerOf[id])
}
