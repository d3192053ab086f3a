// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
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

// components has the components of the graph while a request uses router scopes. Only the components of touched
// nodes are found anew. Source.mu guards it.
type components struct {
	// of has the component of each node that is covered. It is nil without use.
	of map[ovsdb.UUID]*component
	// touched are the nodes whose links may have changed since then.
	touched map[ovsdb.UUID]struct{}
	// rowless are the networks without rows that have a router scope.
	rowless map[origin.Network]struct{}
}

// use begins the use of the components of a graph, none is their end.
func (c *components) use(g graph) {
	*c = components{}
	if g != nil {
		c.of, c.touched = make(map[ovsdb.UUID]*component), make(map[ovsdb.UUID]struct{})
		c.touchAll(g)
	}
}

// isUsed reports whether router scopes are used.
func (c *components) isUsed() bool { return c.of != nil }

// touch notes that the links of a node may have changed.
func (c *components) touch(node ovsdb.UUID) {
	if c.isUsed() {
		c.touched[node] = struct{}{}
	}
}

// touchAll notes that other nodes may be covered.
func (c *components) touchAll(g graph) {
	for node := range g.nodes {
		c.touch(node)
	}
}

// ofNetwork returns the component of a network, nil if none of its nodes is covered.
func (c *components) ofNetwork(g graph, id origin.Network) *component {
	for node := range g.nodesOf(id) {
		if of := c.of[node]; of != nil {
			return of
		}
	}
	return nil
}

// componentSearch finds the components of touched nodes.
type componentSearch struct {
	graph   graph
	covered coverage
	of      map[ovsdb.UUID]*component
	// gone are components that are no more, and found the new ones.
	gone, found map[*component]struct{}
	// pending are nodes whose component is to be found.
	pending []ovsdb.UUID
}

// update finds the components of touched nodes anew. It returns the components that are no more, and the new ones.
func (c *components) update(g graph, is coverage) (gone, found map[*component]struct{}) {
	s := componentSearch{graph: g, covered: is, of: c.of, gone: make(map[*component]struct{}), found: make(map[*component]struct{})}
	for node := range c.touched {
		s.pending = append(s.pending, node)
		if of := s.of[node]; of != nil {
			s.invalidate(of)
		}
	}
	clear(c.touched)
	for len(s.pending) > 0 {
		node := s.pending[0]
		s.pending = s.pending[1:]
		if s.of[node] == nil && is.node(node) {
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
	walk([]ovsdb.UUID{first}, func(node ovsdb.UUID) []ovsdb.UUID {
		if other := s.of[node]; other != nil {
			if _, ok := s.found[other]; ok {
				return nil
			}
			s.invalidate(other) // all of it is joined to c now
		}
		s.of[node] = c
		c.nodes = append(c.nodes, node)
		if id := s.graph.networkOf(node); !id.IsZero() {
			c.networks = append(c.networks, id)
		}
		var complete bool
		joined, complete = neighbours(s.graph, s.covered, joined[:0], node)
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
