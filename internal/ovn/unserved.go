// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// maxReported bounds the ports that are asked for by name: each is one more condition
// that the server looks at for each row that changes.
const maxReported = 64

// Unserved returns why logical ports that have an interface here are no guests of this
// chassis, by Port_Binding.logical_port, as far as Southbound has
// sent their rows. Ports that are
// no guests by their nature, as localports, are left out, and so are those beyond the
// first 64. The ports of the last call of each of those who share the Source are asked
// for, so another call may return more; one without names ends that.
func (s *Source) Unserved(of any, names []string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb == nil || s.closed {
		return nil
	}
	names = slices.Sorted(slices.Values(names))
	names = names[:min(len(names), maxReported)]
	if !slices.Equal(names, s.reported[of]) {
		if s.reported[of] = names; len(names) == 0 {
			delete(s.reported, of)
		}
		s.conditionsDirty = true
		s.update()
	}
	if !s.sb.status.Synced {
		return nil
	}
	return s.sb.unserved(names)
}

// reportedPorts are the ports that Unserved asks for, and the others, sorted.
func (w *world) reportedPorts(others ...string) []string {
	all := others
	for _, names := range w.reported {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unserved says of each of the ports why it is no guest here. Those of which the
// database has not sent the rows, and those that are served, are left out.
func (s *southbound) unserved(names []string) map[string]string {
	rows := make(map[string]*binding, len(names))
	for _, p := range s.ports.All() {
		if _, wanted := slices.BinarySearch(names, p.name); wanted {
			rows[p.name] = p
		}
	}
	reasons := make(map[string]string)
	for _, name := range names {
		if s.world.local && !s.coverage.hasPort(name) {
			continue
		}
		if reason := s.whyUnserved(rows[name]); reason != "" {
			reasons[name] = reason
		}
	}
	return reasons
}

// whyUnserved says why a port is no guest here, by its row, nil for none. It says
// nothing of a port that is one, or that can't be one.
func (s *southbound) whyUnserved(row *binding) string {
	switch {
	case row == nil:
		return "Southbound has no logical port of this name"
	case !isGuest(row.effectiveKind()):
		return ""
	case s.isHere(row):
		if d := s.datapaths.Get(row.datapath); d == nil || !s.world.isComplete(d.network) {
			return "its network has not been read"
		}
		return ""
	case row.chassis == ovsdb.UUID{}:
		return "it is bound to no chassis"
	}
	if c := s.chassis.Get(row.chassis); c != nil {
		return fmt.Sprintf("it is bound to chassis %q", c.name)
	}
	return "it is bound to another chassis"
}
