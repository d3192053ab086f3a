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

// lookInterval is the time between two looks for interfaces that are not served, unless heartbeats are more
// frequent. ovn.Source says nothing of a port whose interface has been there for less than 10 s.
const lookInterval = 2 * time.Second

// unservedPorts are the logical ports that have an interface on the bridge and are not served.
// The goroutine of the session has them.
type unservedPorts struct {
	// pending were not served at the last look. They are logged if they are not served at the next look
	// either: an interface that is just being plugged is served at the next look.
	pending []string
	// found is why each is not served, which was logged. It is empty for a port whose type is never a guest.
	found map[string]string
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
	slices.SortStableFunc(lasting, func(a, b string) int { return u.urgency(a) - u.urgency(b) })
	reasons := why(lasting)
	if u.found == nil {
		u.found = map[string]string{}
	}
	for i := range view.Interfaces {
		iface := &view.Interfaces[i]
		reason, ok := reasons[iface.IfaceID]
		if !ok {
			continue
		}
		before := u.found[iface.IfaceID]
		if u.found[iface.IfaceID] = reason; reason == "" || reason == before {
			continue
		}
		lines = append(lines, fmt.Sprintf("interface %s of logical port %q is not served: %s", iface.Name, iface.IfaceID, reason))
	}
	for name := range u.found {
		if !slices.Contains(now, name) {
			delete(u.found, name) // it is served, or gone
		}
	}
	return lines
}

// urgency orders the ports, of which why may look at the first ones only: a port without a known reason comes first, and
// a port that is no guest comes last. A node may have many localports.
func (u *unservedPorts) urgency(port string) int {
	switch reason, known := u.found[port]; {
	case !known:
		return 0
	case reason != "":
		return 1
	}
	return 2
}

// unservedOf returns the ports with a reason, sorted.
func unservedOf(found map[string]string) (ports []string) {
	for port, reason := range found {
		if reason != "" {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// servedGuests detects a reload after which a bridge has no guests. Only the goroutine of the
// session uses it.
type servedGuests struct {
	server *Server
	// guests is how many server has, before how many the last other one had. heartbeats counts
	// those since the reload.
	guests, before, heartbeats int
}

// set notes how many guests srv has.
func (g *servedGuests) set(srv *Server, guests int) {
	if g.server != srv {
		g.server, g.before, g.heartbeats = srv, g.guests, 0
	}
	g.guests = guests
}

// heartbeat returns, at the second heartbeat after a reload, how many guests there were before it if
// there are none now, else 0.
func (g *servedGuests) heartbeat() (before int) {
	g.heartbeats++
	if g.heartbeats == 2 && g.guests == 0 {
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

// reportNobodyServed logs, at a heartbeat, that the bridge has no guests though it should have some.
func (s *session) reportNobodyServed(srv *Server) {
	view := s.bridge.ports.View()
	if view == nil || view.Absent() || s.flows.Yielding() {
		return
	}
	srv.lookForUnbound(view)
	if !srv.settled() {
		return
	}
	if before := s.bridge.served.heartbeat(); before > 0 {
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
	gauge.Set(float64(len(unservedOf(u.found))))
}
