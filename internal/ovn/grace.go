// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
)

// grace is what a Source has of guests without a binding. Source.mu guards it.
type grace struct {
	guestSet
	// released are for guestInputs.
	released map[string]struct{}
	// rowless has the networks that have no rows, and are served as they were last, with their
	// names.
	rowless map[origin.Network]string
	// outcomes counts how graces have ended since the first of those at present began, for the log.
	outcomes map[outcome]int
}

// guestInputs returns what decides on guests. Southbound is read.
func (w *world) guestInputs(now time.Time) *guestInputs {
	is := w.covered()
	return &guestInputs{
		now: now, rows: w.sb, restored: w.isRestored(), confirmed: w.warm.confirmed,
		interfaces: w.interfaces, plugged: w.plugged, released: w.grace.released, covers: is.network, asked: is.port,
	}
}

// retainGuests decides which guests are retained, before conditions are set, and marks what depends on
// that. prev is the present snapshot. again is when the next grace ends, zero for never.
func (w *world) retainGuests(prev *Snapshot, now time.Time) (again time.Time) {
	if w.sb == nil {
		return again
	}
	g := &w.grace
	before := g.count()
	next, changes, again := g.step(prev, w.guestInputs(now))
	clear(g.released)
	g.guestSet = next
	for _, c := range changes {
		w.markDirty(c.guest.port.Network, true)
		w.conditionsDirty = true
		if c.counted {
			if g.outcomes == nil {
				g.outcomes = make(map[outcome]int)
			}
			g.outcomes[c.outcome]++
		}
	}
	w.logGrace(before)
	return again
}

// logGrace logs the beginning and the end of a grace, once for all guests. before is how
// many were retained before.
func (w *world) logGrace(before int) {
	g := &w.grace
	switch now := g.count(); {
	case before == 0 && now > 0:
		clear(g.outcomes)
		in := w.guestInputs(time.Time{})
		why, longest := "the bindings of this chassis are gone", time.Duration(0)
		for _, k := range g.guestSet {
			longest = max(longest, in.graceOf(k.port.iface()))
			if of := w.sb.chassis.Get(k.chassis); of != nil && of.name != w.chassis && !k.requested {
				why = fmt.Sprintf("this chassis is %q, and its guests are bound to chassis %q", w.chassis, of.name)
			}
		}
		w.log.Warningf("%s: %s: guests kept as they were while their interfaces stand, for up to %s: %d", southboundName, why, longest, now)
	case before > 0 && now == 0:
		text := ""
		for _, o := range slices.Sorted(maps.Keys(g.outcomes)) {
			text += fmt.Sprintf(", %s: %d", outcomeTexts[o], g.outcomes[o])
		}
		log := w.log.Infof
		if g.outcomes[expired] > 0 {
			log = w.log.Warningf
		}
		log("%s: no guest is kept any more%s", southboundName, text)
	}
}

// noteReleased notes a port that was unbound here, though it is requested here.
func (g *grace) noteReleased(name string) {
	if g.released == nil {
		g.released = make(map[string]struct{})
	}
	g.released[name] = struct{}{}
}
