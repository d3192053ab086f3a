// SPDX-License-Identifier: Apache-2.0

package build

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// component is a connected component of the graph. nodes, networks and closed never change.
type component struct {
	nodes    []ovsdb.UUID
	networks []origin.Network
	// closed is set if all neighbours of the nodes are covered.
	closed bool

	// index has the names of the networks in the present snapshot, nil before the first.
	index *names.Union
	// scoped is set while each network has its router scope: closed is set, and index has all networks.
	scoped bool
}

// Components has the components while a request uses router scopes. Source.mu guards it.
type Components struct {
	of map[ovsdb.UUID]*component
	// Touched are nodes whose links or coverage may have changed since the last update.
	Touched map[ovsdb.UUID]struct{}
	rowless map[origin.Network]struct{}
}

// Use begins the use of router scopes of a graph; nil ends it.
func (c *Components) Use(g topology.Graph) {
	*c = Components{}
	if g != nil {
		c.of, c.Touched = make(map[ovsdb.UUID]*component), make(map[ovsdb.UUID]struct{})
		c.TouchAll(g)
	}
}

func (c *Components) IsUsed() bool { return c.of != nil }

func (c *Components) Touch(node ovsdb.UUID) {
	if c.IsUsed() {
		c.Touched[node] = struct{}{}
	}
}

func (c *Components) TouchAll(g topology.Graph) {
	for node := range g.Nodes {
		c.Touch(node)
	}
}

func (c *Components) ofNetwork(g topology.Graph, id origin.Network) *component {
	for node := range g.NodesOf(id) {
		if of := c.of[node]; of != nil {
			return of
		}
	}
	return nil
}

type componentSearch struct {
	graph       topology.Graph
	covered     topology.Covered
	of          map[ovsdb.UUID]*component
	gone, found map[*component]struct{}
	pending     []ovsdb.UUID
}

func (c *Components) update(g topology.Graph, is topology.Covered) (gone, found map[*component]struct{}) {
	s := componentSearch{graph: g, covered: is, of: c.of, gone: make(map[*component]struct{}), found: make(map[*component]struct{})}
	for node := range c.Touched {
		s.pending = append(s.pending, node)
		if of := s.of[node]; of != nil {
			s.invalidate(of)
		}
	}
	clear(c.Touched)
	for len(s.pending) > 0 {
		node := s.pending[0]
		s.pending = s.pending[1:]
		if s.of[node] == nil && is.Node(node) {
			s.flood(node)
		}
	}
	return s.gone, s.found
}

func (s *componentSearch) invalidate(c *component) {
	s.gone[c] = struct{}{}
	for _, node := range c.nodes {
		if s.of[node] == c {
			delete(s.of, node)
		}
	}
	s.pending = append(s.pending, c.nodes...)
}

func (s *componentSearch) flood(first ovsdb.UUID) {
	c := &component{closed: true}
	s.found[c] = struct{}{}
	var joined []ovsdb.UUID
	topology.Walk([]ovsdb.UUID{first}, func(node ovsdb.UUID) []ovsdb.UUID {
		if other := s.of[node]; other != nil {
			if _, ok := s.found[other]; ok {
				return nil
			}
			s.invalidate(other)
		}
		s.of[node] = c
		c.nodes = append(c.nodes, node)
		if id := s.graph.NetworkOf(node); !id.IsZero() {
			c.networks = append(c.networks, id)
		}
		var allCovered bool
		joined, allCovered = topology.Neighbours(s.graph, s.covered, joined[:0], node)
		c.closed = c.closed && allCovered
		return joined
	})
	slices.SortFunc(c.networks, origin.Network.Compare)
	c.networks = slices.Compact(c.networks)
}

// reusableIndex returns the index of the previous component that shares most networks, or nil if a new index
// costs less.
func (c *component) reusableIndex(before map[origin.Network]*component) *names.Union {
	shared := make(map[*component]int)
	var best *component
	for _, id := range c.networks {
		if was := before[id]; was != nil && was.index != nil {
			if shared[was]++; shared[was] > shared[best] {
				best = was
			}
		}
	}
	if best == nil || best.index.Len() > 2*shared[best] {
		return nil
	}
	return best.index
}
