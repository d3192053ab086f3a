// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"slices"
	"time"
)

// ovn-controller claims a new interface's port in milliseconds, but a busy server reports the claim seconds
// later, and searches all ports for each condition. So NotHere requests the port by name only after
// claimTimeout.
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
