// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"

	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/origin"
)

// Answers reports whether the handler answers for a name itself when o asks: it knows
// the name, or nobody behind it is to be asked. The name is fully qualified and in
// lower case. The punt server asks that of queries that it has no room for.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	if plugin.Zones(h.Zones).Matches(qname) == "" || qname == "." {
		return false
	}
	a := h.asker(origin.NewContext(context.Background(), o), h.source.Snapshot())
	if a.scope.Own == nil {
		return false
	}
	_, found := a.scope.Lookup(qname, h.domain)
	return found || !h.Fall.Through(qname)
}
