// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// group is the nodes of the graph that are joined to each other. It is immutable once
// it is found.
type group struct {
	nodes    []ovsdb.UUID
	networks []origin.Network // sorted, each once
	complete bool             // no node of it is missing
}

// groups has the groups of the graph while somebody uses them. Only the groups of
// nodes that are touched are found anew. Source.mu guards it.
type groups struct {
	// users is how many requests with Requests.Routers are not released. The maps are nil
	// without any.
	users int
	// of has the group of each node that is covered.
	of map[ovsdb.UUID]*group
	// touched are the nodes whose links may have changed since of was worked out.
	touched map[ovsdb.UUID]struct{}
}

func (g *groups) touch(node ovsdb.UUID) {
	if g.users > 0 {
		g.touched[node] = struct{}{}
	}
}

// touchNode marks a node whose links have changed. Other rows may be wanted then.
func (w *world) touchNode(node ovsdb.UUID) {
	if w.groups.users > 0 {
		w.groups.touch(node)
		w.conditionsDirty = true
	}
}

// touchAllNodes marks all nodes, after a database has acknowledged other conditions.
func (w *world) touchAllNodes() {
	if w.groups.users > 0 {
		for node := range w.topology.nodes {
			w.groups.touch(node)
		}
	}
}

// useGroups counts n more users of the groups, or fewer.
func (w *world) useGroups(n int) {
	had := w.groups.users > 0
	w.groups.users += n
	switch has := w.groups.users > 0; {
	case has && !had:
		w.groups.of, w.groups.touched = make(map[ovsdb.UUID]*group), make(map[ovsdb.UUID]struct{})
		w.touchAllNodes()
	case had && !has:
		w.groups = groups{}
	default:
		return
	}
	w.conditionsDirty, w.coverageChanged = true, true
}

// groupOf is the group of a network, nil if none of its nodes is covered.
func (w *world) groupOf(id origin.Network) *group {
	for node := range w.topology.nodesOf(id) {
		if g := w.groups.of[node]; g != nil {
			return g
		}
	}
	return nil
}

// regrouping finds the groups of the nodes touched.
type regrouping struct {
	graph graph
	of    map[ovsdb.UUID]*group
	// gone are groups that are no more, and found the new ones.
	gone, found map[*group]struct{}
	// ungrouped are nodes whose group is to be found.
	ungrouped []ovsdb.UUID
}

// regroup updates the groups. It returns those that are no more, and the new ones.
func (w *world) regroup() (gone, found map[*group]struct{}) {
	r := regrouping{graph: w.topology, of: w.groups.of, gone: make(map[*group]struct{}), found: make(map[*group]struct{})}
	for node := range w.groups.touched {
		r.ungrouped = append(r.ungrouped, node)
		if g := r.of[node]; g != nil {
			r.dissolve(g)
		}
	}
	clear(w.groups.touched)
	for len(r.ungrouped) > 0 {
		node := r.ungrouped[0]
		r.ungrouped = r.ungrouped[1:]
		if r.of[node] == nil && r.graph.coversNode(node) {
			r.gather(node)
		}
	}
	return r.gone, r.found
}

// dissolve removes a group. Its nodes are to be grouped anew.
func (r *regrouping) dissolve(g *group) {
	r.gone[g] = struct{}{}
	for _, node := range g.nodes {
		if r.of[node] == g {
			delete(r.of, node)
		}
	}
	r.ungrouped = append(r.ungrouped, g.nodes...)
}

// gather finds the group of a node that is covered.
func (r *regrouping) gather(first ovsdb.UUID) {
	g := &group{complete: true}
	r.found[g] = struct{}{}
	var joined []ovsdb.UUID
	walk([]ovsdb.UUID{first}, func(node ovsdb.UUID) []ovsdb.UUID {
		if other := r.of[node]; other != nil {
			if _, ok := r.found[other]; ok {
				return nil
			}
			r.dissolve(other) // all of it is joined to this group now
		}
		r.of[node] = g
		g.nodes = append(g.nodes, node)
		if id := r.graph.networkOf(node); !id.IsZero() {
			g.networks = append(g.networks, id)
		}
		var complete bool
		joined, complete = neighbours(r.graph, joined[:0], node)
		g.complete = g.complete && complete
		return joined
	})
	slices.SortFunc(g.networks, compareNetworks)
	g.networks = slices.Compact(g.networks)
}

// scopesEditor makes the router scopes of the next snapshot, see Snapshot.
type scopesEditor struct {
	leader *names.MapEditor[origin.Network, origin.Network]
	joined *names.MapEditor[origin.Network, *members]
}

// buildScopes updates the router scopes of the next snapshot. That has its networks
// already: those of prev, but for the dirty ones.
//
// Guests that are served already stay so while their scopes are read, and until all of
// them are known.
func (w *world) buildScopes(prev, next *Snapshot) {
	if w.groups.users == 0 {
		next.scoped = false
		next.leader, next.joined = names.ShardedMap[origin.Network, origin.Network]{}, names.ShardedMap[origin.Network, *members]{}
		return
	}
	e := scopesEditor{prev.leader.Edit(), prev.joined.Edit()}
	gone, changed := w.regroup()
	for id := range w.dirty {
		if g := w.groupOf(id); g != nil {
			changed[g] = struct{}{}
		} else {
			e.leader.Remove(id)
		}
	}
	for g := range gone {
		for _, id := range g.networks {
			if w.groupOf(id) == nil {
				e.leader.Remove(id)
			}
		}
		if len(g.networks) > 0 {
			e.joined.Remove(g.networks[0])
		}
	}
	w.keepScopes(prev, e)
	for g := range changed {
		if len(g.networks) > 0 {
			e.set(g, next)
		}
	}
	if e.leader.Written() {
		next.PortsVersion++
	}
	next.leader, next.joined = e.leader.Done(), e.joined.Done()
	next.scoped = prev.scoped || next.hasGuestScopes()
}

// set lists the networks of a group that the snapshot has. Those that had a scope keep
// one while another network is about to join them.
func (e scopesEditor) set(g *group, s *Snapshot) {
	all := make([]*Network, 0, len(g.networks))
	for _, id := range g.networks {
		if n := s.Network(id); n != nil {
			all = append(all, n)
		} else {
			e.leader.Remove(id)
		}
	}
	first, complete := g.networks[0], g.complete && len(all) == len(g.networks)
	was, _ := e.joined.Get(first)
	e.joined.Set(first, newMembers(all, was))
	for _, n := range all {
		if was, ok := e.leader.Get(n.ID); ok && was != first || !ok && complete {
			e.leader.Set(n.ID, first)
		}
	}
}

func compareNetworks(a, b origin.Network) int { return ovsdb.UUID(a).Compare(ovsdb.UUID(b)) }
