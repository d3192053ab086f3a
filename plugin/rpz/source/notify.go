// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// notifyInterval is the least time between two times at which primaries are asked for a NOTIFY. Tests have
// another one.
var notifyInterval = time.Second

// Notify takes a NOTIFY for a zone (RFC 1996) from an address. All sources of the zone that have a primary
// with this address, and a key that has signed the message, ask the primary soon. known reports whether
// there are sources of the zone that transfer it, taken whether one of them takes the message.
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

// notify takes a NOTIFY from an address. It reports whether this is one of a primary.
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
		default: // the one before is not taken yet
		}
	}
	return taken
}

// takeNotifiers returns the primaries that have sent a NOTIFY since the last call.
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

// waitNotified waits for some time, or with hurry until a NOTIFY has come and notifyInterval has passed
// since primaries were last asked. It reports whether ctx has not ended.
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
