// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Source.mu guards labels, except keys.
type labels struct {
	routerUsers int
	// keyUsers counts the requests for external_ids keys. keys is atomic, as rows are parsed without the
	// lock.
	keyUsers map[string]int
	keys     atomic.Pointer[[]string]
}

func (l *labels) count(routers bool, keys []string, n int) (routersChanged bool, added []string) {
	if routers {
		had := l.routerUsers > 0
		l.routerUsers += n
		routersChanged = had != (l.routerUsers > 0)
	}
	if l.keyUsers == nil {
		l.keyUsers = make(map[string]int)
	}
	for _, key := range keys {
		if l.keyUsers[key] == 0 {
			added = append(added, key)
		}
		if l.keyUsers[key] += n; l.keyUsers[key] <= 0 {
			delete(l.keyUsers, key)
		}
	}
	all := slices.Sorted(maps.Keys(l.keyUsers))
	l.keys.Store(&all)
	return routersChanged, added
}

// labelKeys needs no lock.
func (s *Source) labelKeys() []string {
	if keys := s.labels.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}
