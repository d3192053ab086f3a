// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// notifyInterval is the least time between queries for NOTIFYs. Tests change it.
var notifyInterval = time.Second

// Notify has the sources of the zone with this primary and a signing key ask it soon. known: a source
// transfers the zone; taken: one takes the NOTIFY.
func Notify(zone string, from netip.Addr, isSignedBy func(Key) bool) (known, taken bool) {
	for _, s := range sources.All() {
		if s.config.Zone != zone || s.config.Primaries == "" {
			continue
		}
		known = true
		if isSignedBy(s.config.Key) && s.notify(from) {
			taken = true
		}
	}
	return known, taken
}

// notify reports whether the address is a primary's.
func (s *Source) notify(from netip.Addr) (taken bool) {
	from = from.Unmap().WithZone("")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, primary := range strings.Fields(s.config.Primaries) {
		p, err := netip.ParseAddrPort(primary)
		if err != nil || p.Addr().Unmap().WithZone("") != from {
			continue
		}
		taken = true
		if !slices.Contains(s.notifiers, primary) {
			s.notifiers = append(s.notifiers, primary)
		}
	}
	if taken {
		select {
		case s.notified <- struct{}{}:
		default: // the last one is still pending
		}
	}
	return taken
}

func (s *Source) takeNotifiers() []string {
	select {
	case <-s.notified:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.notifiers
	s.notifiers = nil
	return all
}

// waitNotified waits for d; with hurry, only until a NOTIFY comes and notifyInterval has passed. It reports
// whether ctx has not ended.
func (s *Source) waitNotified(ctx context.Context, d time.Duration, hurry bool) bool {
	if !hurry {
		return wait(ctx, d)
	}
	until := time.NewTimer(d)
	defer until.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-until.C:
		return true
	case <-s.notified:
		return wait(ctx, min(d, time.Until(s.asked.Add(notifyInterval))))
	}
}
