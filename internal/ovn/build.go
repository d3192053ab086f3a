// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"time"

	"github.com/puntdns/puntdns/internal/origin"
)

// build returns the next snapshot. It costs in proportion to what is dirty.
func (w *world) build(prev *Snapshot) *Snapshot {
	if w.coverageChanged {
		w.markNew(prev)
	}
	e := prev.Edit()
	w.buildNetworks(e)
	w.buildNames(e)
	scopes := &scopeInputs{graph: w.topology, covered: w.covered(), changed: w.dirty, rowless: w.grace.rowless}
	w.components.buildScopes(scopes, prev, e)
	if w.sb != nil {
		w.buildLocal(e)
	}
	count := w.dnsCount()
	e.setRows(count.rows, count.records)
	next := e.Done()
	next.Settled = w.isSettled()
	return next
}

// built logs what is new in a snapshot from build, and clears the dirty marks.
func (w *world) built(next *Snapshot) {
	w.noteNetworks(next)
	now := w.findLogged(next)
	w.log.add(notices(w.logged, now)...)
	w.logged = now
	clear(w.dirty)
	w.coverageChanged = false
}

// markNew marks networks that are not in the snapshot as dirty: they may be covered now.
func (w *world) markNew(prev *Snapshot) {
	for id := range w.topology.networkIDs {
		if prev.Network(id) == nil {
			w.markDirty(id, true)
		}
	}
	for id := range w.grace.rowless {
		w.markDirty(id, true)
	}
}

// buildLocal sets the local chassis, its retained guests, and the stage of its switch.
func (w *world) buildLocal(e *Editor) {
	// An empty Southbound has no stage. While guests are retained, the switch still has the
	// flows from before, so the stage stays too.
	if stage := w.sb.dnsStage(); len(stage.cookies) > 0 || len(w.grace.guestSet) == 0 {
		e.SetStage(stage.table, stage.cookies)
	}
	w.builtFlows = w.sb.flows.Version()
	e.setLocal(w.sb.self, w.grace.byInterface())
}

func (w *world) networkInputs() *networkInputs {
	in := &networkInputs{topology: w.topology, sb: w.sb, nb: w.nb, covered: w.covered(), retained: w.grace.guestSet, plugged: w.plugged}
	if w.sb != nil {
		in.guests = w.guestInputs(time.Time{})
	}
	return in
}

// buildNetworks replaces the dirty networks.
func (w *world) buildNetworks(e *Editor) {
	in := w.networkInputs()
	w.builtProblems = make(map[origin.Network]problems)
	for id, withPorts := range w.dirty {
		old := e.Network(id)
		if old != nil {
			w.markName(old.Name)
		}
		p := w.bad.ofNetwork(id)
		n := in.network(id, old, withPorts, &p)
		if n != nil {
			w.builtProblems[id] = p
			delete(w.grace.rowless, id)
		} else {
			delete(w.complete, id)
			n = w.rowlessNetwork(old)
		}
		if n == nil {
			e.Remove(id)
			continue
		}
		w.markName(n.Name)
		e.Put(n)
	}
}
