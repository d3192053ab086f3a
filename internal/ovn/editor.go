// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Editor makes the next Snapshot in time proportional to the changes. It is for one goroutine.
type Editor struct {
	prev, next *Snapshot
	changed    map[origin.Network]*Network
	byName     *names.MapEditor[string, nameHolders] // nil before SetHolders
	scoping    bool
}

func (s *Snapshot) Edit() *Editor {
	next := *s
	return &Editor{prev: s, next: &next, changed: make(map[origin.Network]*Network)}
}

// Put adds or replaces a network. Tunnel keys and ports may move between networks of one Editor.
func (e *Editor) Put(n *Network) *Editor {
	e.changed[n.ID] = n
	return e
}

func (e *Editor) Remove(id origin.Network) *Editor {
	e.changed[id] = nil
	return e
}

func (e *Editor) Network(id origin.Network) *Network {
	if n, ok := e.changed[id]; ok {
		return n
	}
	return e.prev.Network(id)
}

func (e *Editor) SetHolders(name string, ids []origin.Network) {
	if e.byName == nil {
		e.byName = e.prev.byName.Edit()
	}
	had, _ := e.prev.byName.Get(name)
	switch {
	case len(ids) == 0:
		e.byName.Remove(name)
	case had != nameHolders{ids[0], len(ids)}:
		e.byName.Set(name, nameHolders{ids[0], len(ids)})
	}
}

func (e *Editor) EditScopes() ScopesEditor {
	return ScopesEditor{e.prev.scopeOf.Edit(), e.prev.unions.Edit()}
}

func (e *Editor) SetScopes(s ScopesEditor) {
	if s.scopeOf.Written() {
		e.next.PortsVersion++
	}
	e.next.scopeOf, e.next.unions = s.scopeOf.Done(), s.unions.Done()
	e.scoping = true
}

func (e *Editor) ClearScopes() {
	e.next.scopeOf, e.next.unions = names.ShardedMap[origin.Network, origin.Network]{}, names.ShardedMap[origin.Network, *names.Union]{}
	e.next.scoped = false
}

type ScopesEditor struct {
	scopeOf *names.MapEditor[origin.Network, origin.Network]
	unions  *names.MapEditor[origin.Network, *names.Union]
}

func (s ScopesEditor) Get(id origin.Network) (first origin.Network, ok bool) {
	return s.scopeOf.Get(id)
}

func (s ScopesEditor) Set(id, first origin.Network) { s.scopeOf.Set(id, first) }
func (s ScopesEditor) Remove(id origin.Network)     { s.scopeOf.Remove(id) }

func (s ScopesEditor) SetIndex(first origin.Network, names *names.Union) { s.unions.Set(first, names) }
func (s ScopesEditor) RemoveIndex(first origin.Network)                  { s.unions.Remove(first) }

func (e *Editor) SetLocal(chassis [16]byte, retained map[string]string) {
	e.next.chassis, e.next.retained = chassis, retained
}

func (e *Editor) SetStage(s Stage) *Editor {
	e.next.stage = s
	return e
}

func (e *Editor) SetRows(rows, records int) {
	e.next.Stats.Names += records - e.next.dnsRecords
	e.next.Stats.Rows, e.next.dnsRecords = rows, records
}

// Done returns the snapshot. The Editor must not be used afterwards.
func (e *Editor) Done() *Snapshot {
	if len(e.changed) > 0 {
		e.applyNetworks()
	}
	if e.byName != nil {
		e.next.byName = e.byName.Done()
	}
	if e.scoping {
		e.next.scoped = e.next.scoped || e.next.hasGuestScopes()
	}
	if e.next.scoped != e.prev.scoped {
		e.next.PortsVersion++
	}
	return e.next
}

// applyNetworks first removes all previous versions, as a key may move.
func (e *Editor) applyNetworks() {
	m := networkMaps{e.prev.networks.Edit(), e.prev.byKey.Edit(), e.prev.ports.Edit(), &e.next.Stats}
	for id, n := range e.changed {
		old := e.prev.Network(id)
		if !samePorts(old, n) {
			e.next.PortsVersion++
		}
		if ForwardsOf(old) != ForwardsOf(n) {
			e.next.ForwardsVersion++
		}
		if old != nil {
			m.remove(old, n)
		}
	}
	for id, n := range e.changed {
		if n != nil {
			m.add(n, e.prev.Network(id))
		}
	}
	e.next.networks, e.next.byKey, e.next.ports = m.networks.Done(), m.byKey.Done(), m.ports.Done()
}

func samePorts(a, b *Network) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ports == b.ports && a.DNSMeter == b.DNSMeter
}

type networkMaps struct {
	networks *names.MapEditor[origin.Network, *Network]
	byKey    *names.MapEditor[uint32, *Network]
	ports    *names.MapEditor[string, *Port]
	stats    *Stats
}

func (m *networkMaps) remove(old, next *Network) {
	m.networks.Remove(old.ID)
	for _, key := range old.ports.datapaths {
		m.byKey.Remove(key)
	}
	m.stats.Networks--
	m.stats.Ports -= len(old.ports.all)
	m.stats.Names -= old.ports.hosts.Len()
	if next == nil || next.ports != old.ports {
		for _, p := range old.ports.all {
			m.ports.Remove(p.Name)
		}
	}
}

func (m *networkMaps) add(n, old *Network) {
	m.networks.Set(n.ID, n)
	for _, key := range n.ports.datapaths {
		m.byKey.Set(key, n)
	}
	m.stats.Networks++
	m.stats.Ports += len(n.ports.all)
	m.stats.Names += n.ports.hosts.Len()
	if old == nil || n.ports != old.ports {
		for _, p := range n.ports.all {
			m.ports.Set(p.Name, p)
		}
	}
}

type nameHolders struct {
	first origin.Network
	count int
}
