// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"slices"
	"sync"
)

var (
	handlersMu sync.Mutex // guards handlers
	handlers   = map[*Handler]bool{}
)

// Ready reports for all handlers of the process: plugin ready asks one handler of each plugin name.
func (h *Handler) Ready() bool { return len(h.NotReady()) == 0 }

// NotReady implements ready.Explainer: the zones without rules of handlers that require them.
func (*Handler) NotReady() (reasons []string) {
	for _, z := range missing() {
		reasons = append(reasons, z.missing())
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// missing returns the zones without rules of handlers that require them.
func missing() (zones []*policyZone) {
	handlersMu.Lock()
	defer handlersMu.Unlock()
	for h := range handlers {
		for _, z := range h.policies {
			if h.required && z.rules() == nil {
				zones = append(zones, z)
			}
		}
	}
	return zones
}

// missing says that the zone has no rules, and why.
func (z *policyZone) missing() string {
	why := "zone " + z.config.String() + " has no rules"
	if p := z.source.Status().Problem; p != "" {
		why += ": " + p
	}
	return why
}
