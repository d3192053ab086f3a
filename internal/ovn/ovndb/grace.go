// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

// grace is what a Source has of guests without a binding. Source.mu guards it.
type grace struct {
	binding.Guests
	// released are for guestInputs.
	released map[string]struct{}
	// rowless has the networks that have no rows, and are served as they were last, with their
	// names.
	rowless map[origin.Network]string
	// outcomes counts how graces have ended since the first of those at present began, for the log.
	outcomes map[binding.Outcome]int
}

// guestInputs returns what decides on guests. Southbound is read.
func (s *Source) guestInputs(now time.Time) *binding.Inputs {
	is := s.covered()
	return &binding.Inputs{
		Now: now, Rows: s.sb, Restored: s.isRestored(), Confirmed: s.warm.confirmed,
		Interfaces: s.interfaces, Plugged: s.plugged, Released: s.grace.released, Covers: is.Network, Asked: is.Port,
	}
}

// retainGuests decides which guests are retained, before conditions are set, and marks what depends on
// that. prev is the present snapshot. again is when the next grace ends, zero for never.
func (s *Source) retainGuests(prev *ovn.Snapshot, now time.Time) (again time.Time) {
	if s.sb == nil {
		return again
	}
	g := &s.grace
	before := g.Count()
	next, changes, again := g.Step(prev, s.guestInputs(now))
	clear(g.released)
	g.Guests = next
	for _, c := range changes {
		s.markDirty(c.Guest.Port.Network, true)
		s.conditionsDirty = true
		if c.Counted {
			if g.outcomes == nil {
				g.outcomes = make(map[binding.Outcome]int)
			}
			g.outcomes[c.Outcome]++
		}
	}
	s.logGrace(before)
	return again
}

// logGrace logs the beginning and the end of a grace, once for all guests. before is how
// many were retained before.
func (s *Source) logGrace(before int) {
	g := &s.grace
	switch now := g.Count(); {
	case before == 0 && now > 0:
		clear(g.outcomes)
		in := s.guestInputs(time.Time{})
		why, longest := "the bindings of this chassis are gone", time.Duration(0)
		for _, k := range g.Guests {
			longest = max(longest, in.GraceOf(k.Port.Interface()))
			if of := s.sb.Chassis.Get(k.Chassis); of != nil && of.Name != s.chassis && !k.Requested {
				why = fmt.Sprintf("this chassis is %q, and its guests are bound to chassis %q", s.chassis, of.Name)
			}
		}
		s.log.Warningf("%s: %s: guests kept as they were while their interfaces stand, for up to %s: %d", topology.SouthboundName, why, longest, now)
	case before > 0 && now == 0:
		text := ""
		for _, o := range slices.Sorted(maps.Keys(g.outcomes)) {
			text += fmt.Sprintf(", %s: %d", binding.OutcomeTexts[o], g.outcomes[o])
		}
		log := s.log.Infof
		if g.outcomes[binding.Expired] > 0 {
			log = s.log.Warningf
		}
		log("%s: no guest is kept any more%s", topology.SouthboundName, text)
	}
}

// noteReleased notes a port that was unbound here, though it is requested here.
func (g *grace) noteReleased(name string) {
	if g.released == nil {
		g.released = make(map[string]struct{})
	}
	g.released[name] = struct{}{}
}
