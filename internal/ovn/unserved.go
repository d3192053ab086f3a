// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// maxUnserved bounds the ports of one call of Unserved: each is one more condition.
const maxUnserved = 64

// Unserved returns why logical ports that have an interface here are no guests of this
// chassis, by name (ovn-sb(5), Port_Binding logical_port). It asks Southbound, and Northbound
// where that is read alone: there each port that exists is a guest. The reason is empty for a port that is a
// guest, and for one of a type that can't be, such as localport. A port without an entry is not known: the
// database has not sent its row yet or is not synced, or 64 others are before it. Southbound is not asked for
// a port whose interface SetPorts has told of less than 10 s ago, see claimTimeout. The rows of the ports of
// the last call of each owner are read from then on, so another call may return more; after a call without
// names no more are asked for. An owner that has no SetPorts in force gets nil: a call that comes after its
// ForgetPorts asks for nothing.
func (s *Source) Unserved(owner any, names []string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.interfaces[owner]; !known || s.closed {
		return nil
	}
	names = slices.Sorted(slices.Values(names))
	if s.sb == nil {
		return s.nb.unserved(names[:min(len(names), maxUnserved)])
	}
	names = slices.DeleteFunc(names, func(name string) bool { return s.isFresh(name, s.clock()) })
	names = names[:min(len(names), maxUnserved)]
	if !slices.Equal(names, s.unservedPorts[owner]) {
		if s.unservedPorts[owner] = names; len(names) == 0 {
			delete(s.unservedPorts, owner)
		}
		s.conditionsDirty = true
		s.update()
	}
	if !s.sb.status.Synced {
		return nil
	}
	return s.sb.unserved(names)
}

// portsByName returns the ports of guests whose rows are read by name: those of Unserved, and
// those of guests that are kept, sorted.
func (w *world) portsByName() []string {
	all := w.grace.names()
	for _, names := range w.unservedPorts {
		all = append(all, names...)
	}
	return sortedNames(all)
}

// unserved returns for each of the ports why it is no guest here, see Source.Unserved.
func (s *southbound) unserved(names []string) map[string]string {
	reasons := make(map[string]string)
	for _, name := range names {
		if s.world.local && !s.acknowledged.coverage.hasPort(name) {
			continue
		}
		reasons[name] = s.whyUnserved(s.portNamed[name])
	}
	return reasons
}

// unserved returns for each of the ports why it is no guest here, where Northbound is read alone.
// The conditions ask for the ports that have an interface here by name, so for these.
func (n *northbound) unserved(names []string) map[string]string {
	if !n.status.Synced {
		return nil
	}
	reasons := make(map[string]string)
	for _, name := range names {
		if _, asked := slices.BinarySearch(n.acknowledged.others, byPortName(name)); n.world.local && !asked {
			continue
		}
		p := n.portNamed[name]
		if p == nil {
			reasons[name] = "Northbound has no logical port of this name"
			continue
		}
		reasons[name] = ""
		of, known := n.switchOf[p.id]
		if isGuest(effectiveKind(p.kind, p.owner, p.function)) && (!known || !n.world.isComplete(origin.Network(of))) {
			reasons[name] = "its network has not been read"
		}
	}
	return reasons
}

// whyUnserved returns why a port is no guest here, by its row, nil for none. It returns ""
// for a port that is one, or that can't be one.
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
