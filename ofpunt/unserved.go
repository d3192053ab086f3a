// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// unservedPorts are the logical ports that have an interface on the bridge and are not served.
// The goroutine of the session has them.
type unservedPorts struct {
	// suspects were not served at the last look. They are logged if they are not at the next
	// either: an interface that is just being plugged is served by then.
	suspects []string
	// logged is what was last logged of each.
	logged map[string]string
}

// look compares the interfaces of the bridge with the guests, and returns the lines to
// log of those whose state has changed.
func (u *unservedPorts) look(view *ports.View, snapshot *ovn.Snapshot, why func(names []string) map[string]string) (lines []string) {
	var now []string
	for _, name := range view.IfaceIDs() {
		if p := snapshot.PortByName(name); p == nil || !p.Local {
			now = append(now, name)
		}
	}
	lasting := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return !slices.Contains(u.suspects, name) })
	u.suspects = now
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

// reportUnserved logs and counts the interfaces that are not served.
func (s *session) reportUnserved(srv *server) {
	view := s.bridge.ports.View()
	if srv.source == nil || view == nil || view.Absent() || !srv.settled() || s.flows.Yielding() {
		return
	}
	u := &s.bridge.unserved
	why := func(names []string) map[string]string { return srv.source.Unserved(srv, names) }
	for _, line := range u.look(view, srv.source.Snapshot(), why) {
		log.Warningf("Bridge %s: %s", s.bridge.name, line)
	}
	metric.Unserved.WithLabelValues(s.bridge.name).Set(float64(len(u.logged)))
}
