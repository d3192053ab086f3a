// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// graph is what is joined to what: its nodes are logical switches and routers,
// by the UUIDs of Datapath_Binding, or of the Northbound rows where those are
// read alone.
type graph interface {
	// each gives the nodes that are known.
	each(yield func(ovsdb.UUID) bool)
	// covered tells whether all that is joined to a node is known, or asked for.
	covered(node ovsdb.UUID) bool
	// neighbours adds the nodes next to a covered one, none but covered ones. It
	// is false if there may be more.
	neighbours(to []ovsdb.UUID, node ovsdb.UUID) ([]ovsdb.UUID, bool)
	// logical is the network of a node, zero for a router.
	logical(node ovsdb.UUID) origin.Network
	// nodes gives those of a network.
	nodes(id origin.Network) []ovsdb.UUID
}

// group is the nodes that are joined to each other. It is immutable.
type group struct {
	nodes    []ovsdb.UUID
	networks []origin.Network // sorted, each once
	complete bool             // no node of it is missing
}

// groups follows the graph while somebody wants to know. Only the groups of
// nodes that are touched are found anew.
type groups struct {
	wanted  int
	of      map[ovsdb.UUID]*group
	touched map[ovsdb.UUID]struct{}
}

func (g *groups) touch(node ovsdb.UUID) {
	if g.wanted > 0 {
		g.touched[node] = struct{}{}
	}
}

// touchAll is for when other rows are asked for than before.
func (w *world) touchAll() {
	if w.groups.wanted > 0 {
		w.graph().each(func(node ovsdb.UUID) bool {
			w.groups.touch(node)
			return true
		})
	}
}

// wantGroups counts who wants them.
func (w *world) wantGroups(n int) {
	had := w.groups.wanted > 0
	w.groups.wanted += n
	switch has := w.groups.wanted > 0; {
	case has && !had:
		w.groups.of, w.groups.touched = make(map[ovsdb.UUID]*group), make(map[ovsdb.UUID]struct{})
		w.touchAll()
	case had && !has:
		w.groups = groups{}
	default:
		return
	}
	w.want, w.recheck = true, true
}

func (w *world) graph() graph {
	if w.sb != nil {
		return w.sb
	}
	return w.nb
}

// regroup finds the groups of what was touched. It returns those that are there
// no more, and the new ones.
func (w *world) regroup() (gone, found map[*group]struct{}) {
	gone, found = make(map[*group]struct{}), make(map[*group]struct{})
	of, graph := w.groups.of, w.graph()
	var affected []ovsdb.UUID
	dissolve := func(g *group) {
		gone[g] = struct{}{}
		for _, node := range g.nodes {
			if of[node] == g {
				delete(of, node)
			}
		}
		affected = append(affected, g.nodes...)
	}
	for node := range w.groups.touched {
		affected = append(affected, node)
		if g := of[node]; g != nil {
			dissolve(g)
		}
	}
	clear(w.groups.touched)
	var next []ovsdb.UUID
	for len(affected) > 0 {
		node := affected[0]
		affected = affected[1:]
		if of[node] != nil || !graph.covered(node) {
			continue
		}
		g := &group{complete: true}
		found[g] = struct{}{}
		for queue := []ovsdb.UUID{node}; len(queue) > 0; {
			node, queue = queue[0], queue[1:]
			if other := of[node]; other != nil {
				if _, ok := found[other]; ok {
					continue
				}
				dissolve(other) // all of it is joined to this one now
			}
			of[node] = g
			g.nodes = append(g.nodes, node)
			if id := graph.logical(node); !id.IsZero() {
				g.networks = append(g.networks, id)
			}
			var all bool
			next, all = graph.neighbours(next[:0], node)
			g.complete = g.complete && all
			queue = append(queue, next...)
		}
		slices.SortFunc(g.networks, compareNetworks)
		g.networks = slices.Compact(g.networks)
	}
	return gone, found
}

// groupOf is the group of a network, nil for none.
func (w *world) groupOf(id origin.Network) *group {
	for _, node := range w.graph().nodes(id) {
		if g := w.groups.of[node]; g != nil {
			return g
		}
	}
	return nil
}

// buildGroups brings the groups of the next snapshot up to date, whose networks
// are there already: those of prev but for the dirty ones.
func (w *world) buildGroups(prev, next *Snapshot) {
	next.scoped = w.groups.wanted > 0
	if !next.scoped {
		next.groups, next.joined = sharded[origin.Network, origin.Network]{}, sharded[origin.Network, []*Network]{}
		return
	}
	leader, joined := prev.groups.edit(), prev.joined.edit()
	gone, changed := w.regroup()
	for id := range w.dirty {
		if g := w.groupOf(id); g != nil {
			changed[g] = struct{}{}
		} else {
			leader.remove(id)
		}
	}
	for g := range gone {
		for _, id := range g.networks {
			if w.groupOf(id) == nil {
				leader.remove(id)
			}
		}
		if len(g.networks) > 0 {
			joined.remove(g.networks[0])
		}
	}
	for g := range changed {
		if len(g.networks) > 0 {
			next.buildGroup(g, leader, joined)
		}
	}
	next.groups, next.joined = leader.done(), joined.done()
}

// buildGroup lists the networks of a group that are known as a whole. Those that
// had a scope keep one while another network is on its way to join them.
func (s *Snapshot) buildGroup(g *group, leader *editor[origin.Network, origin.Network], joined *editor[origin.Network, []*Network]) {
	members := make([]*Network, 0, len(g.networks))
	for _, id := range g.networks {
		if n := s.Network(id); n != nil {
			members = append(members, n)
		} else {
			leader.remove(id)
		}
	}
	first, all := g.networks[0], g.complete && len(members) == len(g.networks)
	joined.set(first, members)
	for _, n := range members {
		if was, ok := leader.get(n.ID); ok && was != first || !ok && all {
			leader.set(n.ID, first)
		}
	}
}

func compareNetworks(a, b origin.Network) int { return ovsdb.UUID(a).Compare(ovsdb.UUID(b)) }
