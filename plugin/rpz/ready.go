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
	handlersMu.Lock()
	defer handlersMu.Unlock()
	for h := range handlers {
		if !h.required {
			continue
		}
		for _, z := range h.policies {
			if z.rules() != nil {
				continue
			}
			why := "zone " + z.config.String() + " has no rules"
			if p := z.source.Status().Problem; p != "" {
				why += ": " + p
			}
			reasons = append(reasons, why)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
