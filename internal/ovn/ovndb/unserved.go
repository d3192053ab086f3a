// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/binding"
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
		return s.whyNot(names[:min(len(names), maxUnserved)])
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
	return s.whyNot(names)
}

// portsByName returns the ports whose rows are read by name, sorted: those of Unserved and those of
// retained guests.
func (s *Source) portsByName() []string {
	all := s.grace.Names()
	for _, names := range s.unservedPorts {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// whyNot returns why ports are no guests here, by name. A port whose row has not been asked for has no entry.
func (s *Source) whyNot(ports []string) map[string]string {
	if !s.databases[0].status.Synced {
		return nil
	}
	is, reasons := s.covered(), make(map[string]string)
	why := func(port string) string { return binding.WhyNotByNorthbound(s.nb, port, is.Network) }
	if s.sb != nil {
		why = s.guestInputs(time.Time{}).WhyNot
	}
	for _, port := range ports {
		if is.Port(port) {
			reasons[port] = why(port)
		}
	}
	return reasons
}
