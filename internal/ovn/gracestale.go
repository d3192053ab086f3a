// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// staleNetwork returns a network that has no rows any more as it was, with its kept guests
// only; nil if there are none.
func (w *world) staleNetwork(old *Network) *Network {
	if old == nil {
		return nil
	}
	guests := w.grace.of(old.ID)
	if len(guests) == 0 {
		delete(w.grace.stale, old.ID)
		return nil
	}
	if w.grace.stale == nil {
		w.grace.stale = make(map[origin.Network]string)
	}
	w.grace.stale[old.ID] = old.Name
	n, ports := *old, *old.ports
	n.ports, ports.guests = &ports, guests
	ports.byKey, ports.external = make(map[uint64]*Port, len(guests)), nil
	for _, p := range guests {
		ports.byKey[pipelineKey(p.DatapathKey, p.Key)] = p
	}
	return &n
}

// keepPorts adds the kept guests of a network whose keys in the switch are other ones than
// those of their rows.
func (w *world) keepPorts(b *portsBuilder) {
	for _, p := range w.grace.of(b.network.ID) {
		key := pipelineKey(p.DatapathKey, p.Key)
		if b.out.byKey[key] != nil {
			continue
		}
		b.out.byKey[key] = p
		b.out.guests = append(b.out.guests, p)
		if !slices.Contains(b.out.datapaths, p.DatapathKey) {
			b.out.datapaths = append(b.out.datapaths, p.DatapathKey)
		}
	}
}

// keepScopes copies the router scopes of stale networks from the present snapshot. One that
// had none is a scope by itself: there are no rows that would say what is joined to it.
func (w *world) keepScopes(prev *Snapshot, e scopesEditor) {
	g := &w.grace
	for id := range g.scopes {
		if _, ok := g.stale[id]; !ok {
			e.joined.Remove(id)
			delete(g.scopes, id)
		}
	}
	for id := range g.stale {
		if g.scopes == nil {
			g.scopes = make(map[origin.Network]struct{})
		}
		g.scopes[id] = struct{}{}
		e.leader.Set(id, id)
		e.joined.Set(id, prev.RouterScope(id).Joined())
	}
}
