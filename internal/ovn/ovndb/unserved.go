// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/binding"
)

// maxUnserved bounds the conditions of one call of Unserved.
const maxUnserved = 64

// Unserved returns why logical ports that have an interface here are no guests of this chassis, by name
// (ovn-sb(5), Port_Binding logical_port). With Northbound alone each port that exists is a guest. The reason is
// empty for a guest, and for a port whose type is never a guest, such as localport.
//
// A port has no entry if its row has not come yet, if SetPorts reported its interface less than claimTimeout
// ago, or if 64 other ports come first. The Source reads the rows of an owner's last call from then on, so
// another call may return more. An owner without SetPorts gets nil and requests nothing.
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

// portsByName returns the ports whose rows are read by name, sorted: the ports of Unserved and retained guests.
func (s *Source) portsByName() []string {
	all := s.grace.Names()
	for _, names := range s.unservedPorts {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *Source) whyNot(ports []string) map[string]string {
	if !s.databases[0].status.Synced {
		return nil
	}
	is, reasons := s.coverage(), make(map[string]string)
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
