// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The methods of graph follow.

func (n *northbound) nodes(yield func(ovsdb.UUID) bool) {
	for id := range n.switches.All() {
		if !yield(id) {
			return
		}
	}
	for id := range n.routers.All() {
		if !yield(id) {
			return
		}
	}
}

func (n *northbound) nodesOf(id origin.Network) iter.Seq[ovsdb.UUID] {
	return slices.Values([]ovsdb.UUID{ovsdb.UUID(id)})
}

func (n *northbound) networkOf(node ovsdb.UUID) origin.Network {
	if n.switches.Get(node) == nil {
		return origin.Network{}
	}
	return origin.Network(node)
}

func (n *northbound) isProvider(node ovsdb.UUID) bool {
	s := n.switches.Get(node)
	return s != nil && slices.ContainsFunc(s.ports, func(id ovsdb.UUID) bool {
		p := n.ports.Get(id)
		return p != nil && p.kind == kindLocalnet
	})
}

func (n *northbound) linksOf(node ovsdb.UUID) iter.Seq[link] {
	return func(yield func(link) bool) {
		if s := n.switches.Get(node); s != nil && !n.switchLinks(s, yield) {
			return
		}
		if r := n.routers.Get(node); r != nil {
			n.routerLinks(r, yield)
		}
	}
}

// portsToRouters yields the ports of a switch that lead to routers.
func (n *northbound) portsToRouters(s *logicalSwitch) iter.Seq[*switchPort] {
	return func(yield func(*switchPort) bool) {
		for _, id := range s.ports {
			if p := n.ports.Get(id); p != nil && p.kind == kindRouter && !yield(p) {
				return
			}
		}
	}
}

func (n *northbound) attachments(node ovsdb.UUID) iter.Seq[attachment] {
	return func(yield func(attachment) bool) {
		s := n.switches.Get(node)
		if s == nil {
			return
		}
		for p := range n.portsToRouters(s) {
			a := attachment{routerPort: p.routerPort, external: p.owner == ownerExternal}
			if port := n.routerPortNamed[p.routerPort]; port != nil {
				a.known, a.networks, a.router = true, port.networks, n.routerOf[port.id]
				if r := n.routers.Get(a.router); r != nil {
					a.routerName, a.forward = r.name, r.forward
				}
			}
			if !yield(a) {
				return
			}
		}
	}
}

// switchLinks yields the ports of routers that those of a switch name. It reports whether
// yield wants more.
func (n *northbound) switchLinks(s *logicalSwitch, yield func(link) bool) bool {
	for p := range n.portsToRouters(s) {
		if port := n.routerPortNamed[p.routerPort]; port != nil && !n.yieldRouter(port, yield) {
			return false
		}
	}
	return true
}

// routerLinks yields the ports of switches that name those of a router, and the ports of
// other routers that are peers.
func (n *northbound) routerLinks(r *router, yield func(link) bool) {
	for _, id := range r.ports {
		port := n.routerPorts.Get(id)
		if port == nil {
			continue
		}
		for id := range n.attached[port.name] {
			to, known := n.switchOf[id]
			if !yield(link{port: portRef{id: id}, known: known, to: to, mutual: known}) {
				return
			}
		}
		if peer := n.routerPortNamed[port.peer]; peer != nil && peer.peer == port.name && !n.yieldRouter(peer, yield) {
			return
		}
	}
}

// yieldRouter yields the router of a port, and reports whether yield wants more. Routers
// are read completely: a port without one is no link.
func (n *northbound) yieldRouter(port *routerPort, yield func(link) bool) bool {
	to, ok := n.routerOf[port.id]
	return !ok || yield(link{port: portRef{id: port.id}, known: true, to: to, mutual: true})
}
