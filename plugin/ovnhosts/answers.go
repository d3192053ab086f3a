// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Answers reports whether a name that o asks for is answered here, and never by the server that o
// has asked: the handler knows the name, or does not know yet whether it does, or the network has
// named servers for it, or nobody behind the handler is to be asked. The name is fully qualified
// and in lower case. The punt server asks that of queries that it has no room for.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	k := h.known(o, qname)
	return k.forwarded || k.asked && (k.found || k.unread || !h.Fall.Through(qname))
}

// OVNOwned reports whether the name, as o sees it, is that of a row that OVN owns. The name
// is as of Answers. The punt server asks that of queries that it does not take.
func (h *Handler) OVNOwned(o *origin.Origin, qname string) bool {
	k := h.known(o, qname)
	return k.found && k.answer.OVNOwned
}

// knowledge is what the handler knows of a name.
type knowledge struct {
	answer names.Answer
	found  bool
	// asked is set if the handler is the one to ask: the name is in its zones, and the asker
	// has a network.
	asked bool
	// forwarded is set if the forwarder of the block takes the name, whatever its type, and in
	// whatever zone: it has zones of its own.
	forwarded bool
	// unread is that of asker.
	unread bool
}

// known returns what the handler knows of a name when o asks.
func (h *Handler) known(o *origin.Origin, qname string) (k knowledge) {
	a := h.asker(origin.NewContext(context.Background(), o), h.source.Snapshot())
	if a.scope.Own == nil {
		return k
	}
	if plugin.Zones(h.Zones).Matches(qname) != "" && qname != "." {
		k.asked, k.unread = true, a.unread
		k.answer, k.found = a.scope.Lookup(qname, h.Domain)
	}
	k.forwarded = !k.found && h.forwards(a.scope.Own, qname, dns.TypeNone)
	return k
}
