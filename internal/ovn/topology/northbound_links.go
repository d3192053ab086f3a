// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func (n *Northbound) Nodes(yield func(ovsdb.UUID) bool) {
	for id := range n.Switches.All() {
		if !yield(id) {
			return
		}
	}
	for id := range n.Routers.All() {
		if !yield(id) {
			return
		}
	}
}

func (n *Northbound) NodesOf(id origin.Network) iter.Seq[ovsdb.UUID] {
	return slices.Values([]ovsdb.UUID{ovsdb.UUID(id)})
}

func (n *Northbound) NetworkOf(node ovsdb.UUID) origin.Network {
	if n.Switches.Get(node) == nil {
		return origin.Network{}
	}
	return origin.Network(node)
}

func (n *Northbound) isProvider(node ovsdb.UUID) bool {
	s := n.Switches.Get(node)
	return s != nil && slices.ContainsFunc(s.Ports, func(id ovsdb.UUID) bool {
		p := n.Ports.Get(id)
		return p != nil && p.Type == ovn.TypeLocalnet
	})
}

func (n *Northbound) linksOf(node ovsdb.UUID) iter.Seq[link] {
	return func(yield func(link) bool) {
		if s := n.Switches.Get(node); s != nil && !n.switchLinks(s, yield) {
			return
		}
		if r := n.Routers.Get(node); r != nil {
			n.routerLinks(r, yield)
		}
	}
}

func (n *Northbound) portsToRouters(s *LogicalSwitch) iter.Seq[*SwitchPort] {
	return func(yield func(*SwitchPort) bool) {
		for _, id := range s.Ports {
			if p := n.Ports.Get(id); p != nil && p.Type == ovn.TypeRouter && !yield(p) {
				return
			}
		}
	}
}

func (n *Northbound) Attachments(node ovsdb.UUID) iter.Seq[Attachment] {
	return func(yield func(Attachment) bool) {
		s := n.Switches.Get(node)
		if s == nil {
			return
		}
		for p := range n.portsToRouters(s) {
			a := Attachment{RouterPort: p.Peer(), external: p.rare().owner == ownerExternal}
			if port := n.RouterPortNamed[p.Peer()]; port != nil {
				a.Known, a.networks, a.Router = true, port.networks, n.routerOf[port.ID]
				if r := n.Routers.Get(a.Router); r != nil {
					a.routerName, a.forward = r.Name, r.forward
				}
			}
			if !yield(a) {
				return
			}
		}
	}
}

func (n *Northbound) switchLinks(s *LogicalSwitch, yield func(link) bool) bool {
	for p := range n.portsToRouters(s) {
		if port := n.RouterPortNamed[p.Peer()]; port != nil && !n.yieldRouter(port, yield) {
			return false
		}
	}
	return true
}

func (n *Northbound) routerLinks(r *Router, yield func(link) bool) {
	for _, id := range r.Ports {
		port := n.RouterPorts.Get(id)
		if port == nil {
			continue
		}
		for id := range n.attached[port.Name] {
			to, known := n.SwitchOf[id]
			if !yield(link{port: Peer{ID: id}, known: known, to: to, mutual: known}) {
				return
			}
		}
		if peer := n.RouterPortNamed[port.peer]; peer != nil && peer.peer == port.Name && !n.yieldRouter(peer, yield) {
			return
		}
	}
}

// yieldRouter reports whether to continue. All routers are read, so a port without a router is no link.
func (n *Northbound) yieldRouter(port *RouterPort, yield func(link) bool) bool {
	to, ok := n.routerOf[port.ID]
	return !ok || yield(link{port: Peer{ID: port.ID}, known: true, to: to, mutual: true})
}
