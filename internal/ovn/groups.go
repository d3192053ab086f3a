// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// group is the nodes of the graph that are joined to each other. It is immutable once
// it is found, but for what scopesEditor keeps there.
type group struct {
	nodes    []ovsdb.UUID
	networks []origin.Network // sorted, each once
	complete bool             // no node of it is missing

	// joined are those of the networks that the last snapshot has, nil before it is made. led is
	// set once each of them has a router scope, as long as none is missing.
	joined *names.Union
	led    bool
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
	graph   graph
	covered covered
	of      map[ovsdb.UUID]*group
	// gone are groups that are no more, and found the new ones.
	gone, found map[*group]struct{}
	// ungrouped are nodes whose group is to be found.
	ungrouped []ovsdb.UUID
}

// regroup updates the groups. It returns those that are no more, and the new ones.
func (w *world) regroup() (gone, found map[*group]struct{}) {
	r := regrouping{graph: w.topology, covered: w.covered(), of: w.groups.of, gone: make(map[*group]struct{}), found: make(map[*group]struct{})}
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
		if r.of[node] == nil && r.covered.node(node) {
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
		joined, complete = neighbours(r.graph, r.covered, joined[:0], node)
		g.complete = g.complete && complete
		return joined
	})
	slices.SortFunc(g.networks, compareNetworks)
	g.networks = slices.Compact(g.networks)
}

// scopesEditor makes the router scopes of the next snapshot, see Snapshot.
type scopesEditor struct {
	leader *names.MapEditor[origin.Network, origin.Network]
	joined *names.MapEditor[origin.Network, *names.Union]
}

// buildScopes sets the router scopes of the next snapshot, after its networks.
//
// Guests that are served already stay so while their scopes are read, and until all of
// them are known.
func (w *world) buildScopes(prev *Snapshot, next *Editor) {
	if w.groups.users == 0 {
		next.clearScopes()
		return
	}
	e := scopesEditor{prev.leader.Edit(), prev.joined.Edit()}
	gone, found := w.regroup()
	changed := make(map[*group][]origin.Network)
	for id := range w.dirty {
		g := w.groupOf(id)
		if g == nil {
			e.leader.Remove(id)
		} else if _, ok := found[g]; !ok {
			changed[g] = append(changed[g], id)
		}
	}
	before := make(map[origin.Network]*group) // those that are no more, by their networks
	for g := range gone {
		for _, id := range g.networks {
			before[id] = g
			if w.groupOf(id) == nil {
				e.leader.Remove(id)
			}
		}
		if len(g.networks) > 0 {
			e.joined.Remove(g.networks[0])
		}
	}
	w.keepScopes(prev, e)
	for g := range found {
		e.setAll(g, g.largestPart(before), next)
	}
	for g, ids := range changed {
		e.set(g, ids, next)
	}
	next.setScopes(e)
}

// largestPart returns what was joined before of which a group is best made: that which has most
// of its networks, unless most of that is elsewhere now. It may be nil. So it is the smaller part
// whose names are indexed anew when groups meet, or part.
func (g *group) largestPart(before map[origin.Network]*group) *names.Union {
	shared := make(map[*group]int)
	var best *group
	for _, id := range g.networks {
		if was := before[id]; was != nil && was.joined != nil {
			if shared[was]++; shared[was] > shared[best] {
				best = was
			}
		}
	}
	if best == nil || best.joined.Len() > 2*shared[best] {
		return nil
	}
	return best.joined
}

// setAll joins the networks of a group that has been found, which are in base as far as they
// were joined before. What has not changed since then is not indexed anew.
func (e scopesEditor) setAll(g *group, base *names.Union, s *Editor) {
	if len(g.networks) == 0 {
		return
	}
	was := make(map[origin.Network]*names.Directory)
	edit := base.Edit()
	if base != nil {
		for id, d := range base.All() {
			was[id] = d
			if _, ok := slices.BinarySearchFunc(g.networks, origin.Network(id), compareNetworks); !ok {
				edit.Remove(id)
			}
		}
	}
	for _, id := range g.networks {
		switch n := s.Network(id); {
		case n == nil:
			edit.Remove(id)
			e.leader.Remove(id)
		case was[id] != &n.Directory:
			edit.Set(id, &n.Directory)
		}
	}
	g.joined, g.led = edit.Done(), false
	e.lead(g, g.networks, s)
}

// set joins the networks of a group, of which only some have changed.
func (e scopesEditor) set(g *group, changed []origin.Network, s *Editor) {
	edit := g.joined.Edit()
	for _, id := range changed {
		if n := s.Network(id); n != nil {
			edit.Set(id, &n.Directory)
		} else {
			edit.Remove(id)
			e.leader.Remove(id)
		}
	}
	g.joined = edit.Done()
	e.lead(g, changed, s)
}

// lead gives the networks of a group that have changed their router scopes, and all of them once
// the group is complete. Those that had one keep one while another network is about to join them.
func (e scopesEditor) lead(g *group, changed []origin.Network, s *Editor) {
	first, complete := g.networks[0], g.complete && g.joined.Len() == len(g.networks)
	e.joined.Set(first, g.joined)
	if complete && !g.led {
		changed = g.networks
	}
	g.led = complete
	for _, id := range changed {
		if s.Network(id) == nil {
			continue
		}
		if was, ok := e.leader.Get(id); ok && was != first || !ok && complete {
			e.leader.Set(id, first)
		}
	}
}

func compareNetworks(a, b origin.Network) int { return ovsdb.UUID(a).Compare(ovsdb.UUID(b)) }
