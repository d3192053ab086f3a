// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"
)

// claimTimeout is how long ovn-controller has to claim the port of a new interface before Unserved asks for the
// port by its name. A claim takes milliseconds, but a busy server reports it seconds later. A condition for
// each of many new guests would have the server look at all ports as many times.
const claimTimeout = 10 * time.Second

// plug sets the logical ports that have an interface here, sorted.
func (s *Source) plug(names []string, now time.Time) {
	if slices.Equal(names, s.plugged) {
		return
	}
	at := make(map[string]time.Time, len(names))
	for _, name := range names {
		at[name] = now
		if since, ok := s.pluggedAt[name]; ok {
			at[name] = since
		}
	}
	s.plugged, s.pluggedAt = names, at
}

// isFresh reports whether ovn-controller may still be about to claim the port of an interface.
func (s *Source) isFresh(name string, now time.Time) bool {
	since, ok := s.pluggedAt[name]
	return ok && now.Before(since.Add(claimTimeout))
}
