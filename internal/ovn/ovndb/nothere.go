// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/binding"
)

// maxAsked bounds the conditions of one call of NotHere.
const maxAsked = 64

// NotHere returns why logical ports with an interface on the bridge are no guests of this chassis, by name.
// The reason is empty for a guest, and for a type that is never a guest, such as localport.
//
// A port has no entry before its row has come, within claimTimeout after SetLocal, or after maxAsked other
// names. The Source then reads the rows, so a later call may return more. The result is nil before SetLocal.
func (r *Reader) NotHere(names []string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.readers[r]; !open || r.local == nil || r.closed {
		return nil
	}
	if r.sb == nil {
		return r.whyNot(names)
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return r.isFresh(name, r.clock()) })
	names = names[:min(len(names), maxAsked)]
	slices.Sort(names)
	if !slices.Equal(names, r.asked) {
		r.asked, r.conditionsDirty = names, true
		r.update()
	}
	return r.whyNot(names)
}

func (s *Source) portsByName() []string {
	all := s.grace.Names()
	for r := range s.readers {
		all = append(all, r.asked...)
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
		in := s.guestInputs(time.Time{})
		why = func(port string) string {
			if s.nb != nil && s.nb.PortNamed[port] != nil && s.sb.PortNamed[port] == nil {
				return "Northbound has this logical port, and Southbound does not: ovn-northd has not copied it"
			}
			return in.WhyNot(port)
		}
	}
	for _, port := range ports {
		if is.Port(port) {
			reasons[port] = why(port)
		}
	}
	return reasons
}
