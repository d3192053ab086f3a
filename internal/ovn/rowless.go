// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
)

// rowlessNetwork returns a network that has no rows any more as it was, with its retained guests
// only; nil if there are none.
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
	n, ports := *old, *old.ports
	n.ports, ports.guests = &ports, guests
	ports.byKey, ports.external = make(map[uint64]*Port, len(guests)), nil
	for _, p := range guests {
		ports.byKey[pipelineKey(p.DatapathKey, p.Key)] = p
	}
	return &n
}

// addRetained adds the retained guests of a network whose keys in the switch are other ones than
// those of their rows.
func (w *world) addRetained(b *portsBuilder) {
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

// keepScopes copies the router scopes of rowless networks from the present snapshot. One that
// had none is a scope by itself: there are no rows that would say what is joined to it.
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
