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

type grace struct {
	binding.Guests
	released map[string]struct{}
	// rowless has the names of networks without rows, served in their last version.
	rowless  map[origin.Network]string
	outcomes map[binding.Outcome]int
}

func (s *Source) guestInputs(now time.Time) *binding.Inputs {
	is := s.coverage()
	return &binding.Inputs{
		Now: now, Rows: s.sb, Restored: s.isRestored(), Confirmed: s.confirmed(),
		Interfaces: s.localPorts(), Plugged: s.plugged, Released: s.grace.released, Covers: is.Network, Asked: is.Port,
	}
}

// again is when the next grace ends, or zero. setConditions depends on retainGuests.
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

// before is the former count of guests.
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

func (g *grace) noteReleased(name string) {
	if g.released == nil {
		g.released = make(map[string]struct{})
	}
	g.released[name] = struct{}{}
}
