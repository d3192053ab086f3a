// SPDX-License-Identifier: Apache-2.0

package ovn

import "github.com/puntdns/puntdns/internal/origin"

// rowlessNetwork returns a network whose rows are gone as it was, with its retained guests
// only. It returns nil if there are none.
func (w *world) rowlessNetwork(old *Network) *Network {
	if old == nil {
		return nil
	}
	guests := w.grace.of(old.ID)
	if len(guests) == 0 {
		delete(w.grace.rowless, old.ID)
		return nil
	}
	if w.grace.rowless == nil {
		w.grace.rowless = make(map[origin.Network]string)
	}
	w.grace.rowless[old.ID] = old.Name
	w.bad.built[old.ID] = w.bad.ofNetwork(old.ID)
	return old.withRetained(guests)
}

// keepScopes copies the router scopes of rowless networks from the present snapshot. A network that
// had none is a scope by itself, as no rows say which networks are joined to it.
func (w *world) keepScopes(prev *Snapshot, e scopesEditor) {
	g := &w.grace
	for id := range g.scopes {
		if _, ok := g.rowless[id]; !ok {
			e.joined.Remove(id)
			delete(g.scopes, id)
		}
	}
	for id := range g.rowless {
		if g.scopes == nil {
			g.scopes = make(map[origin.Network]struct{})
		}
		g.scopes[id] = struct{}{}
		e.leader.Set(id, id)
		e.joined.Set(id, prev.RouterScope(id).Union())
	}
}
