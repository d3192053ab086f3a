// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"
	"slices"
	"sync/atomic"
)

// labels counts the requests for labels of metadata. Source.mu guards it, except for keys.
type labels struct {
	// routerUsers is how many requests for Port.Routers are not released.
	routerUsers int
	// keyUsers counts the requests for each key of external_ids. keys are these keys, sorted;
	// the slice is immutable. Rows are parsed without the lock, so keys is atomic; nil is for none.
	keyUsers map[string]int
	keys     atomic.Pointer[[]string]
}

// count counts n more requests, or fewer. It reports whether the first for the routers has
// come, or the last has gone, and returns the keys for which the first has come.
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

// labelKeys returns the keys of external_ids that are asked for. The lock need not be held.
func (w *world) labelKeys() []string {
	if keys := w.labels.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}
