// SPDX-License-Identifier: Apache-2.0

package build

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// component is a connected component of the graph: nodes that are joined to each other, directly or by other
// nodes. Its nodes, networks and closed never change.
type component struct {
	nodes    []ovsdb.UUID
	networks []origin.Network // sorted, each once
	// closed is set if all nodes that are joined to the component are covered, and so part of it.
	closed bool

	// index has the names of the networks that the present snapshot has, nil before the first one.
	index *names.Union
	// scoped is set while each network has its router scope: the component is closed, and index has all
	// of its networks.
	scoped bool
}

// Components has the components of the graph while a request uses router scopes. Only the components of touched
// nodes are found anew. Source.mu guards it.
type Components struct {
	// of has the component of each node that is covered. It is nil without use.
	of map[ovsdb.UUID]*component
	// Touched are the nodes whose links may have changed since then.
	Touched map[ovsdb.UUID]struct{}
	// rowless are the networks without rows that have a router scope.
	rowless map[origin.Network]struct{}
}

// Use begins the use of the components of a graph, none is their end.
func (c *Components) Use(g topology.Graph) {
	*c = Components{}
	if g != nil {
		c.of, c.Touched = make(map[ovsdb.UUID]*component), make(map[ovsdb.UUID]struct{})
		c.TouchAll(g)
	}
}

// IsUsed reports whether router scopes are used.
func (c *Components) IsUsed() bool { return c.of != nil }

// Touch notes that the links of a node may have changed.
func (c *Components) Touch(node ovsdb.UUID) {
	if c.IsUsed() {
		c.Touched[node] = struct{}{}
	}
}

// TouchAll notes that other nodes may be covered.
func (c *Components) TouchAll(g topology.Graph) {
	for node := range g.Nodes {
		c.Touch(node)
	}
}

// ofNetwork returns the component of a network, nil if none of its nodes is covered.
func (c *Components) ofNetwork(g topology.Graph, id origin.Network) *component {
	for node := range g.NodesOf(id) {
		if of := c.of[node]; of != nil {
			return of
		}
	}
	return nil
}

// componentSearch finds the components of touched nodes.
type componentSearch struct {
	graph   topology.Graph
	covered topology.Covered
	of      map[ovsdb.UUID]*component
	// gone are components that are no more, and found the new ones.
	gone, found map[*component]struct{}
	// pending are nodes whose component is to be found.
	pending []ovsdb.UUID
}

// update finds the components of touched nodes anew. It returns the components that are no more, and the new ones.
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

// invalidate removes a component. The components of its nodes are to be found anew.
func (s *componentSearch) invalidate(c *component) {
	s.gone[c] = struct{}{}
	for _, node := range c.nodes {
		if s.of[node] == c {
			delete(s.of, node)
		}
	}
	s.pending = append(s.pending, c.nodes...)
}

// flood finds the component of a covered node.
func (s *componentSearch) flood(first ovsdb.UUID) {
	c := &component{closed: true}
	s.found[c] = struct{}{}
	var joined []ovsdb.UUID
	topology.Walk([]ovsdb.UUID{first}, func(node ovsdb.UUID) []ovsdb.UUID {
		if other := s.of[node]; other != nil {
			if _, ok := s.found[other]; ok {
				return nil
			}
			s.invalidate(other) // all of it is joined to c now
		}
		s.of[node] = c
		c.nodes = append(c.nodes, node)
		if id := s.graph.NetworkOf(node); !id.IsZero() {
			c.networks = append(c.networks, id)
		}
		var complete bool
		joined, complete = topology.Neighbours(s.graph, s.covered, joined[:0], node)
		c.closed = c.closed && complete
		return joined
	})
	slices.SortFunc(c.networks, origin.Network.Compare)
	c.networks = slices.Compact(c.networks)
}

// reusableIndex returns the index of the previous component that shares most networks with this one, nil if a
// new index costs less. So when components meet or part, the names of the smaller part are indexed anew.
// before has the components that are no more, by their networks.
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
