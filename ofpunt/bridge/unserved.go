// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// lookInterval is the time between two looks for interfaces that are not served, unless beats are more
// frequent. ovn.Source says nothing of a port whose interface has been there for less than 10 s.
const lookInterval = 2 * time.Second

// unservedPorts are the logical ports that have an interface on the bridge and are not served.
// The goroutine of the session has them.
type unservedPorts struct {
	// pending were not served at the last look. They are logged if they are not served at the next look
	// either: an interface that is just being plugged is served at the next look.
	pending []string
	// logged is what was last logged of each.
	logged map[string]string
}

// look compares the interfaces of the bridge with the guests, and returns the lines to log of the interfaces
// whose state has changed. why is ovndb.Reader.NotHere: an interface without an entry keeps its state.
func (u *unservedPorts) look(c *guests.Config, view *ports.View, snapshot *ovn.Snapshot, why func(names []string) map[string]string) (lines []string) {
	var now []string
	for _, name := range view.IfaceIDs() {
		if !c.Serves(snapshot.PortByName(name)) {
			now = append(now, name)
		}
	}
	lasting := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return !slices.Contains(u.pending, name) })
	u.pending = now
	reasons := why(lasting)
	if u.logged == nil {
		u.logged = map[string]string{}
	}
	for i := range view.Interfaces {
		iface := &view.Interfaces[i]
		reason, ok := reasons[iface.IfaceID]
		if !ok || u.logged[iface.IfaceID] == reason {
			continue
		}
		if reason == "" {
			delete(u.logged, iface.IfaceID) // it can't be a guest any more
			continue
		}
		u.logged[iface.IfaceID] = reason
		lines = append(lines, fmt.Sprintf("interface %s of logical port %q is not served: %s", iface.Name, iface.IfaceID, reason))
	}
	for name := range u.logged {
		if !slices.Contains(now, name) {
			delete(u.logged, name) // it is served, or gone
		}
	}
	return lines
}

// servedGuests detects a reload after which a bridge has no guests. Only the goroutine of the
// session uses it.
type servedGuests struct {
	server *Server
	// guests is how many server has, before how many the last other one had. beats counts
	// those since the reload.
	guests, before, beats int
}

// set notes how many guests srv has.
func (g *servedGuests) set(srv *Server, guests int) {
	if g.server != srv {
		g.server, g.before, g.beats = srv, g.guests, 0
	}
	g.guests = guests
}

// beat returns, at the second beat after a reload, how many guests there were before it if
// there are none now, else 0.
func (g *servedGuests) beat() (before int) {
	g.beats++
	if g.beats == 2 && g.guests == 0 {
		return g.before
	}
	return 0
}

// lookForUnbound logs, and shows to ready, that placement neutron serves no guest, if two looks find that: an
// interface that is just being plugged is bound at the second look.
func (s *Server) lookForUnbound(view *ports.View) {
	reason := s.Book(view).WhyNoGuest()
	switch {
	case reason == "":
		s.unboundSeen = false
		s.agentBoundNone.Store(nil)
	case !s.unboundSeen:
		s.unboundSeen = true
	case s.agentBoundNone.Swap(&reason) == nil:
		log.Warningf("Bridge %s: %s", s.Options.Name, reason)
	}
}

// reportNobodyServed logs, at a beat, that the bridge has no guests though it should have some.
func (s *session) reportNobodyServed(srv *Server) {
	view := s.bridge.ports.View()
	if view == nil || view.Absent() || s.flows.Yielding() {
		return
	}
	srv.lookForUnbound(view)
	if !srv.settled() {
		return
	}
	if before := s.bridge.served.beat(); before > 0 {
		log.Warningf("Bridge %s: the Corefile that was reloaded serves no guest here, before: %d; %s", s.bridge.name, before, srv.Options.WhyNone(s.desired.list))
	}
}

// reportUnserved logs and counts the interfaces that are not served.
func (s *session) reportUnserved(srv *Server) {
	view := s.bridge.ports.View()
	if view == nil || view.Absent() || s.flows.Yielding() || !srv.settled() {
		return
	}
	u, gauge := &s.bridge.unserved, metric.Unserved.WithLabelValues(s.bridge.name)
	if srv.source == nil {
		*u = unservedPorts{} // a Corefile before may have had databases
		gauge.Set(0)
		return
	}
	for _, line := range u.look(&srv.Options.Config, view, srv.source.Snapshot(), srv.source.NotHere) {
		log.Warningf("Bridge %s: %s", s.bridge.name, line)
	}
	gauge.Set(float64(len(u.logged)))
}
