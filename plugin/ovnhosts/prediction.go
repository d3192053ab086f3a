// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Answers reports whether puntdns, not the guest's server, would answer a lower-case FQDN. The punt server
// calls it for queries that it drops under load.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	p := h.predict(o, qname)
	return p.forwarded || p.inZone && (p.found || p.unread || !h.Fall.Through(qname))
}

// OVNOwned reports whether a lower-case FQDN is from a row that OVN owns. The punt server calls it for
// queries that it does not take.
func (h *Handler) OVNOwned(o *origin.Origin, qname string) bool {
	p := h.predict(o, qname)
	return p.found && p.answer.OVNOwned
}

// prediction is how the handler would treat a query.
type prediction struct {
	answer names.Answer
	found  bool
	// inZone is set if the guest's network is known and the name is in the handler's zones.
	inZone bool
	// forwarded is set if the forwarder takes the name, in any zone and for any type.
	forwarded bool
	unread    bool
}

// predict sends nothing.
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
