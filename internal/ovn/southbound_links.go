// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"iter"
	"maps"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// datapathLinks are the ports that join datapaths.
type datapathLinks struct {
	byName rows.Names[binding]
	// of has the ports of a datapath that may join it to another, localnets its
	// localnet ports.
	of        rows.Index[ovsdb.UUID, binding]
	localnets rows.Index[ovsdb.UUID, binding]
}

func newDatapathLinks() datapathLinks {
	return datapathLinks{
		byName:    make(rows.Names[binding]),
		of:        make(rows.Index[ovsdb.UUID, binding]),
		localnets: make(rows.Index[ovsdb.UUID, binding]),
	}
}

// joins reports whether the port is one end of what joins two datapaths. Those come in
// pairs (ovn-sb(5), Port_Binding options:peer). The port of a router on the chassis of a
// gateway (chassisredirect) is none of them.
func (p *binding) joins() bool { return (p.kind == kindPatch || p.kind == kindGateway) && p.peer != "" }

func (s *southbound) attachments(node ovsdb.UUID) iter.Seq[attachment] {
	return func(yield func(attachment) bool) {
		for _, p := range s.links.of[node] {
			a := attachment{routerPort: p.peer, external: p.owner == ownerExternal}
			if q := s.links.byName[p.peer]; q != nil && q.peer == p.name {
				a.known, a.networks, a.router = true, q.mac, q.datapath
				if d := s.datapaths.Get(q.datapath); d != nil && d.network.IsZero() {
					a.routerName = d.name
				}
			}
			if !yield(a) {
				return
			}
		}
	}
}

// markRouterPort marks what depends on one of two ports that join a switch and a router: what
// the network at the other end says of its routers, and the conditions.
func (s *southbound) markRouterPort(p *binding) {
	if !p.joins() {
		return
	}
	if q := s.links.byName[p.peer]; q != nil {
		s.markDatapath(q.datapath, partRouters)
	}
}

func (s *southbound) linkPort(id ovsdb.UUID, p *binding) {
	switch {
	case p.kind == kindLocalnet:
		s.links.localnets.Add(p.datapath, id, p)
	case p.joins():
		s.links.of.Add(p.datapath, id, p)
		s.links.byName[p.name] = p
	default:
		return
	}
	s.changes.node(p.datapath)
}

func (s *southbound) unlinkPort(id ovsdb.UUID, p *binding) {
	switch {
	case p.kind == kindLocalnet:
		s.links.localnets.Remove(p.datapath, id)
	case p.joins():
		s.links.of.Remove(p.datapath, id)
		s.links.byName.Remove(p.name, p)
	default:
		return
	}
	s.changes.node(p.datapath)
}

// The methods of graph follow.

func (s *southbound) nodes(yield func(ovsdb.UUID) bool) {
	for id := range s.datapaths.All() {
		if !yield(id) {
			return
		}
	}
}

func (s *southbound) nodesOf(id origin.Network) iter.Seq[ovsdb.UUID] {
	return maps.Keys(s.networks[id])
}

func (s *southbound) networkOf(node ovsdb.UUID) origin.Network {
	if d := s.datapaths.Get(node); d != nil {
		return d.network
	}
	return origin.Network{}
}

func (s *southbound) isProvider(node ovsdb.UUID) bool {
	if len(s.links.localnets[node]) > 0 {
		return true
	}
	for sibling := range s.networks[s.networkOf(node)] {
		if len(s.links.localnets[sibling]) > 0 {
			return true
		}
	}
	return false
}

// linksOf yields the links of a node, with the ports at the other ends. Both ends have to
// name each other: where northd removes them, it may do so one after the other.
func (s *southbound) linksOf(node ovsdb.UUID) iter.Seq[link] {
	return func(yield func(link) bool) {
		for _, p := range s.links.of[node] {
			l := link{port: portRef{name: p.peer}}
			if q := s.links.byName[p.peer]; q != nil {
				l.known, l.to, l.mutual = true, q.datapath, q.peer == p.name
			}
			if !yield(l) {
				return
			}
		}
		for sibling := range s.networks[s.networkOf(node)] {
			if !yield(link{known: true, to: sibling, mutual: true, sibling: true}) {
				return
			}
		}
	}
}

// markRouter marks the networks of a router, whose name may have changed.
func (s *southbound) markRouter(router ovsdb.UUID) {
	for _, p := range s.links.of[router] {
		if q := s.links.byName[p.peer]; q != nil { // the end at a switch
			s.markDatapath(q.datapath, partRouters)
		}
	}
}
