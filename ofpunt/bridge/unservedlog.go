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

// lookInterval is the time between looks, unless heartbeats are more frequent. NotHere reports a port only 10 s after its
// interface was plugged.
const lookInterval = 2 * time.Second

// unservedPorts are unserved logical ports with an interface here. Only the session's goroutine uses them.
type unservedPorts struct {
	// pending were unserved at the last look. The next look logs them, unless they are served.
	pending []string
	// found has the logged reasons, empty for types that are never guests.
	found map[string]string
}

// look returns log lines for changes. why is ovndb.Reader.NotHere: without an entry an interface keeps its state.
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

// urgency puts ports without a known reason first, and ports that are never guests last, since why looks up only the
// first ports. A node may have many localports.
func (u *unservedPorts) urgency(port string) int {
	switch reason, known := u.found[port]; {
	case !known:
		return 0
	case reason != "":
		return 1
	}
	return 2
}

func unservedOf(found map[string]string) (ports []string) {
	for port, reason := range found {
		if reason != "" {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// servedGuests detects a reload that leaves no guests. Only the session's goroutine uses it.
type servedGuests struct {
	server *Server
	// guests is server's count, before the previous server's. heartbeats counts since the reload.
	guests, before, heartbeats int
}

func (g *servedGuests) set(srv *Server, guests int) {
	if g.server != srv {
		g.server, g.before, g.heartbeats = srv, g.guests, 0
	}
	g.guests = guests
}

// heartbeat returns before at the second heartbeat after a reload, if no guests are left, else 0.
func (g *servedGuests) heartbeat() (before int) {
	g.heartbeats++
	if g.heartbeats == 2 && g.guests == 0 {
		return g.before
	}
	return 0
}

// lookForUnbound reports that placement neutron serves no guest, at the second look: Neutron's agent may be binding a
// new interface.
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

func (s *session) reportUnserved(srv *Server) {
	view := s.bridge.ports.View()
	if view == nil || view.Absent() || s.flows.Yielding() || !srv.settled() {
		return
	}
	u, gauge := &s.bridge.unserved, metric.Unserved.WithLabelValues(s.bridge.name)
	if srv.source == nil {
		*u = unservedPorts{} // the previous Corefile may have had databases
		gauge.Set(0)
		return
	}
	for _, line := range u.look(&srv.Options.Config, view, srv.source.Snapshot(), srv.source.NotHere) {
		log.Warningf("Bridge %s: %s", s.bridge.name, line)
	}
	gauge.Set(float64(len(unservedOf(u.found))))
}
