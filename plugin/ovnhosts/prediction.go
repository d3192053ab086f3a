// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Answers reports whether puntdns would answer a query of o for a name, not the server that the guest has asked.
// Then the handler has the name, may have it in a network that is still unread, forwards it, or denies it.
// The name is fully qualified and in lower case. The punt server calls Answers for queries that it drops
// under load.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	p := h.predict(o, qname)
	return p.forwarded || p.inZone && (p.found || p.unread || !h.Fall.Through(qname))
}

// OVNOwned reports whether o would get the name from a row that OVN owns. The name is fully qualified and in
// lower case. The punt server calls OVNOwned for queries that it does not take.
func (h *Handler) OVNOwned(o *origin.Origin, qname string) bool {
	p := h.predict(o, qname)
	return p.found && p.answer.OVNOwned
}

// prediction is how the handler would treat a query for a name.
type prediction struct {
	answer names.Answer
	found  bool
	// inZone is set if the name is in the handler's zones and the network of the guest is known.
	inZone bool
	// forwarded is set if the forwarder of the block takes the name, in any zone and for any type.
	forwarded bool
	// unread is asker.unread.
	unread bool
}

// predict returns how the handler would treat a query of o for a name. It sends nothing.
func (h *Handler) predict(o *origin.Origin, qname string) (p prediction) {
	a := h.asker(origin.NewContext(context.Background(), o), h.source.Snapshot())
	if a.scope.Own == nil {
		return p
	}
	if plugin.Zones(h.Zones).Matches(qname) != "" && qname != "." {
		p.inZone, p.unread = true, a.unread
		p.answer, p.found = a.scope.Lookup(qname, h.Domain)
	}
	p.forwarded = !p.found && h.forwards(a.scope.Own, qname, dns.TypeNone)
	return p
}
