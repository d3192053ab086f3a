// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"iter"
	"maps"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type datapathLinks struct {
	byName rows.Names[PortBinding]
	// of has the ports that may join a datapath to another, localnets its localnet ports.
	of        rows.Index[ovsdb.UUID, PortBinding]
	localnets rows.Index[ovsdb.UUID, PortBinding]
}

func newDatapathLinks() datapathLinks {
	return datapathLinks{
		byName:    make(rows.Names[PortBinding]),
		of:        make(rows.Index[ovsdb.UUID, PortBinding]),
		localnets: make(rows.Index[ovsdb.UUID, PortBinding]),
	}
}

// joins reports whether the port is one end of a pair that joins two datapaths (ovn-sb(5), Port_Binding
// options:peer).
func (p *PortBinding) joins() bool {
	return (p.Type == ovn.TypePatch || p.Type == ovn.TypeGateway) && p.Peer() != ""
}

func (s *Southbound) Attachments(node ovsdb.UUID) iter.Seq[Attachment] {
	return func(yield func(Attachment) bool) {
		for _, p := range s.links.of[node] {
			a := Attachment{RouterPort: p.Peer(), external: p.rare().owner == ownerExternal}
			if q := s.links.byName[p.Peer()]; q != nil && q.Peer() == p.Name {
				a.Known, a.networks, a.Router = true, q.elements(), q.Datapath
				if d := s.Datapaths.Get(q.Datapath); d != nil && d.Network.IsZero() {
					a.routerName = d.Name
				}
			}
			if !yield(a) {
				return
			}
		}
	}
}

func (s *Southbound) markRouterPort(p *PortBinding) {
	if !p.joins() {
		return
	}
	if q := s.links.byName[p.Peer()]; q != nil {
		s.markDatapath(q.Datapath, PartRouters)
	}
}

func (s *Southbound) linkPort(id ovsdb.UUID, p *PortBinding) {
	switch {
	case p.Type == ovn.TypeLocalnet:
		s.links.localnets.Add(p.Datapath, id, p)
	case p.joins():
		s.links.of.Add(p.Datapath, id, p)
		s.links.byName[p.Name] = p
	default:
		return
	}
	s.Changes.node(p.Datapath)
}

func (s *Southbound) unlinkPort(id ovsdb.UUID, p *PortBinding) {
	switch {
	case p.Type == ovn.TypeLocalnet:
		s.links.localnets.Remove(p.Datapath, id)
	case p.joins():
		s.links.of.Remove(p.Datapath, id)
		s.links.byName.Remove(p.Name, p)
	default:
		return
	}
	s.Changes.node(p.Datapath)
}

func (s *Southbound) Nodes(yield func(ovsdb.UUID) bool) {
	for id := range s.Datapaths.All() {
		if !yield(id) {
			return
		}
	}
}

func (s *Southbound) NodesOf(id origin.Network) iter.Seq[ovsdb.UUID] {
	return maps.Keys(s.Networks[id])
}

func (s *Southbound) NetworkOf(node ovsdb.UUID) origin.Network {
	if d := s.Datapaths.Get(node); d != nil {
		return d.Network
	}
	return origin.Network{}
}

func (s *Southbound) isProvider(node ovsdb.UUID) bool {
	if len(s.links.localnets[node]) > 0 {
		return true
	}
	for sibling := range s.Networks[s.NetworkOf(node)] {
		if len(s.links.localnets[sibling]) > 0 {
			return true
		}
	}
	return false
}

// Both ends of a link must name each other, as northd may remove them one after the other.
func (s *Southbound) linksOf(node ovsdb.UUID) iter.Seq[link] {
	return func(yield func(link) bool) {
		for _, p := range s.links.of[node] {
			l := link{port: Peer{Name: p.Peer()}}
			if q := s.links.byName[p.Peer()]; q != nil {
				l.known, l.to, l.mutual = true, q.Datapath, q.Peer() == p.Name
			}
			if !yield(l) {
				return
			}
		}
		for sibling := range s.Networks[s.NetworkOf(node)] {
			if !yield(link{known: true, to: sibling, mutual: true, sibling: true}) {
				return
			}
		}
	}
}

func (s *Southbound) markRouter(router ovsdb.UUID) {
	for _, p := range s.links.of[router] {
		if q := s.links.byName[p.Peer()]; q != nil {
			s.markDatapath(q.Datapath, PartRouters)
		}
	}
}
