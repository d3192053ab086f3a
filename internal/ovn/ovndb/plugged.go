// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"
)

// claimTimeout is how long ovn-controller has to claim the port of a new interface before NotHere requests the
// port by name. A claim takes milliseconds, but a busy server reports it seconds later. With a condition for
// each of many new guests the server would search all ports as many times.
const claimTimeout = 10 * time.Second

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

func (s *Source) isFresh(name string, now time.Time) bool {
	since, ok := s.pluggedAt[name]
	return ok && now.Before(since.Add(claimTimeout))
}
