// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"fmt"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
)

func init() { control.Process.AddStatus(addStatus) }

// addStatus warns of refused servers of the open Handlers.
func addStatus(_ context.Context, to *api.Status) {
	handlersMu.Lock()
	defer handlersMu.Unlock()
	all, first := 0, ""
	for h := range handlers {
		refused := h.reviewer.refused.Load()
		if refused == nil {
			continue
		}
		for _, n := range refused.counts {
			all += n
		}
		if first == "" || refused.first != "" && refused.first < first {
			first = refused.first
		}
	}
	if all > 0 {
		to.Warnings = append(to.Warnings, api.Problem{Code: api.CodeRefusedServers, About: Name, Text: fmt.Sprintf("servers that networks name for zones of theirs and that are not asked: %d, such as: %s", all, first)})
	}
}
