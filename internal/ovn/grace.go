// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A guest whose binding vanishes is kept: it is served for a grace period while it has its
// interface, as routes are in a graceful restart of BGP (RFC 4724). There are four cases:
//
//   - ovn-controller has ended regularly. It deletes its bindings and its Chassis row
//     in one transaction (OVN's controller/binding.c, binding_cleanup) and leaves
//     flows and guests in the switch.
//   - Southbound was reset or emptied. All rows are gone, the Chassis among them, and
//     come back with other UUIDs and perhaps other tunnel keys. Until then the network
//     of the guest is stale: it is served as it was last.
//   - The port is requested here and bound nowhere. That is so for some milliseconds
//     in a live migration, where the source releases the port after the destination
//     has claimed it.
//   - This chassis has another name. ovn-controller then inserts a Chassis row and claims
//     the ports for it. Southbound refuses that row while the row of the former name has
//     the same encapsulation (index of Encap in ovn-sb.ovsschema), so an operator has to
//     delete the former row. Until then the ports stay bound to the former row.
//
// While the Chassis row of this name exists, a binding that vanishes was removed on purpose. A kept
// guest has the tunnel keys that the switch still has for it. When Southbound gives
// those keys to another port, the grace ends at once.
//
//	keepGuests ── candidates ─► decide ── evidenceOf, judge ─► keep, or a verdict that ends it

// grace has the guests that are kept. Source.mu guards it.
type grace struct {
	// kept is nil before the first grace.
	kept map[string]*keptGuest // by logical port
	// released are the ports that were unbound since the last keepGuests, though they
	// are requested here.
	released map[string]struct{}
	// stale has the networks that have no rows, and are served as they were last, with their
	// names.
	stale map[origin.Network]string
	// scopes are the stale networks that have a router scope of their own.
	scopes map[origin.Network]struct{}
	// outcomes counts the verdicts on the guests of the present grace, for the log.
	outcomes map[verdict]int
}

// keptGuest is a guest without a binding.
type keptGuest struct {
	port    *Port      // as it was last bound
	chassis ovsdb.UUID // the row of Chassis that it was bound to
	since   time.Time  // when the binding was first missing
	// requested is set for a port that OVN is about to bind here. It is not counted, as
	// that is the regular course of a migration.
	requested bool
	// undecided is set until the first verdict.
	undecided bool
}

// keepGuests decides which guests are kept, after rows or interfaces have changed or time
// has passed, and before conditions are set. prev is the present snapshot. It returns when
// the next grace ends, zero if no guest is kept.
func (w *world) keepGuests(prev *Snapshot, now time.Time) (again time.Time) {
	if w.sb == nil {
		return again
	}
	g := &w.grace
	before := g.count()
	candidates := w.sb.candidates(prev)
	clear(g.released)
	if len(candidates)+len(g.kept) == 0 {
		return again
	}
	if g.kept == nil {
		g.kept, g.outcomes = make(map[string]*keptGuest), make(map[verdict]int)
	}
	for _, p := range candidates {
		if g.kept[p.Name] == nil {
			g.kept[p.Name] = &keptGuest{port: p, chassis: prev.chassis, since: now, undecided: true}
		}
	}
	owners := w.sb.ownersOf(g.kept)
	for _, k := range g.kept {
		again = earlier(again, w.decide(k, owners, now))
	}
	w.logGrace(before)
	return again
}

// decide decides on one guest. It returns when its grace ends, zero if it is not kept any
// more.
func (w *world) decide(k *keptGuest, owners keyOwners, now time.Time) (until time.Time) {
	e := w.sb.evidenceOf(k, owners)
	until = k.since.Add(w.graceOf(k.port.iface()))
	e.timedOut = !now.Before(until)
	first, counted := k.undecided, !k.undecided && !k.requested
	k.undecided = false
	row := w.sb.portNamed[k.port.Name]
	k.requested = row != nil && e.where == unbound && row.requested != (ovsdb.UUID{}) && row.requested == w.sb.self
	v := e.judge()
	if v == keep {
		if first {
			w.markKept(k)
		}
		return until
	}
	delete(w.grace.kept, k.port.Name)
	w.markKept(k)
	if counted {
		w.grace.outcomes[v]++
	}
	return time.Time{}
}

// markKept marks as dirty what depends on whether a guest is kept.
func (w *world) markKept(k *keptGuest) {
	w.markDirty(k.port.Network, true)
	w.conditionsDirty, w.stageDirty = true, true
}

// logGrace logs the beginning and the end of a grace, once for all guests. before is how
// many were kept before.
func (w *world) logGrace(before int) {
	g := &w.grace
	switch now := g.count(); {
	case before == 0 && now > 0:
		clear(g.outcomes)
		why, longest := "the bindings of this chassis are gone", time.Duration(0)
		for _, k := range g.kept {
			longest = max(longest, w.graceOf(k.port.iface()))
			if of := w.sb.chassis.Get(k.chassis); of != nil && of.name != w.chassis && !k.requested {
				why = fmt.Sprintf("this chassis is %q, and its guests are bound to chassis %q", w.chassis, of.name)
			}
		}
		w.log.Warningf("%s: %s: guests kept as they were while their interfaces stand, for up to %s: %d", southboundName, why, longest, now)
	case before > 0 && now == 0:
		text := ""
		for _, v := range slices.Sorted(maps.Keys(g.outcomes)) {
			text += fmt.Sprintf(", %s: %d", verdicts[v], g.outcomes[v])
		}
		log := w.log.Infof
		if g.outcomes[expired] > 0 {
			log = w.log.Warningf
		}
		log("%s: no guest is kept any more%s", southboundName, text)
	}
}

// count returns how many guests are kept, without those that OVN is about to bind.
func (g *grace) count() int {
	n := 0
	for _, k := range g.kept {
		if !k.requested {
			n++
		}
	}
	return n
}

// noteReleased notes a port that was unbound here, though it is requested here.
func (g *grace) noteReleased(name string) {
	if g.released == nil {
		g.released = make(map[string]struct{})
	}
	g.released[name] = struct{}{}
}

// isKept reports whether the guest of that port name is kept.
func (g *grace) isKept(name string) bool { return g.kept[name] != nil }

// has reports whether the guest of that port name is kept with those tunnel keys.
func (g *grace) has(name string, datapath, port uint32) bool {
	k := g.kept[name]
	return k != nil && k.port.DatapathKey == datapath && k.port.Key == port
}

// names returns the logical ports of the kept guests, sorted.
func (g *grace) names() []string { return slices.Sorted(maps.Keys(g.kept)) }

// datapaths returns the tunnel keys of their networks, sorted.
func (g *grace) datapaths() []uint32 {
	var keys []uint32
	for _, k := range g.kept {
		keys = append(keys, k.port.DatapathKey)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// of returns the kept guests of a network, in the order of their names.
func (g *grace) of(id origin.Network) []*Port {
	var all []*Port
	for _, name := range g.names() {
		if k := g.kept[name]; k.port.Network == id {
			all = append(all, k.port)
		}
	}
	return all
}

// forSnapshot returns Snapshot.kept, nil if no guest is counted.
func (g *grace) forSnapshot() map[string]string {
	if g.count() == 0 {
		return nil
	}
	all := make(map[string]string, len(g.kept))
	for name, k := range g.kept {
		if !k.requested {
			all[name] = k.port.iface()
		}
	}
	return all
}
