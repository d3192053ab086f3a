// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"

	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Answers reports whether the handler answers for a name itself when o asks: it knows
// the name, or nobody behind it is to be asked. The name is fully qualified and in
// lower case. The punt server asks that of queries that it has no room for.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	_, found, asked := h.known(o, qname)
	return asked && (found || !h.Fall.Through(qname))
}

// OVNOwned reports whether the name, as o sees it, is that of a row that OVN owns. The name
// is as of Answers. The punt server asks that of queries that it does not take.
func (h *Handler) OVNOwned(o *origin.Origin, qname string) bool {
	known, found, _ := h.known(o, qname)
	return found && known.OVNOwned
}

// known is what the handler knows of a name when o asks. asked is set if the handler is the
// one to ask: the name is in its zones, and o has a network.
func (h *Handler) known(o *origin.Origin, qname string) (known names.Answer, found, asked bool) {
	if plugin.Zones(h.Zones).Matches(qname) == "" || qname == "." {
		return known, false, false
	}
	a := h.asker(origin.NewContext(context.Background(), o), h.source.Snapshot())
	if a.scope.Own == nil {
		return known, false, false
	}
	known, found = a.scope.Lookup(qname, h.domain)
	return known, found, true
}
