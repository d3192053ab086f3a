// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// picture is a network without rows as it was, with no guests but those kept; nil if
// none of it is.
func (w *world) picture(old *Network) *Network {
	if old == nil {
		return nil
	}
	guests := w.grace.of(old.ID)
	if len(guests) == 0 {
		delete(w.grace.pictures, old.ID)
		return nil
	}
	if w.grace.pictures == nil {
		w.grace.pictures = make(map[origin.Network]struct{})
	}
	w.grace.pictures[old.ID] = struct{}{}
	n, ports := *old, *old.ports
	n.ports, ports.guests = &ports, guests
	ports.byKey = make(map[uint64]*Port, len(guests))
	for _, p := range guests {
		ports.byKey[pipelineKey(p.DatapathKey, p.Key)] = p
	}
	return &n
}

// keepPorts adds the kept guests of a network that the switch knows by other keys
// than those of their rows.
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

// keepScopes keeps the router scopes of networks that have no rows.
func (w *world) keepScopes(prev *Snapshot, e scopesEditor) {
	g := &w.grace
	for id := range g.scopes {
		if _, ok := g.pictures[id]; !ok {
			e.joined.Remove(id)
			delete(g.scopes, id)
		}
	}
	for id := range g.pictures {
		scope := prev.RouterScope(id)
		if scope.Own == nil {
			continue
		}
		if g.scopes == nil {
			g.scopes = make(map[origin.Network]struct{})
		}
		g.scopes[id] = struct{}{}
		e.leader.Set(id, id)
		e.joined.Set(id, scope.members)
	}
}
