// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"time"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// route says who answers a question for a name that the asker's networks do not have.
type route uint8

const (
	// toHere: it is denied here, or answered with the records of the zone itself.
	toHere route = iota
	// toNext: the next plugin answers.
	toNext
	// toNextUnlessDenied: the next plugin answers, but its NXDOMAIN is replaced by our
	// answer.
	toNextUnlessDenied
)

// route decides by the property fallthrough. With zones, all names in one of these go to
// the next plugin. Without zones, names of the asker's own domain, and names that have
// others of the asker below them, stay here. A denial from elsewhere would be cached for as long
// as its SOA says, while the name may be created meanwhile; and the denial of a name with
// others below it denies those too (RFC 8020). In hijack mode the guest has asked a server
// of its own choice, which may have such names, so they go to the next plugin as well. But
// if a plugin denies one, which is not that server, the denial is replaced.
func (h *Handler) route(a asker, qname string, qtype uint16) route {
	own := names.Under(qname, a.domain)
	switch {
	case !h.Fall.Through(qname):
		return toHere
	case !h.fallAll || !own && !h.above(a, qname):
		return toNext
	case a.origin != nil && a.origin.Hijacked:
		return toNextUnlessDenied
	case own || isOurs(qtype):
		return toHere
	}
	// A row www.example.org says nothing of the MX records of example.org, nor of the
	// DNSSEC keys of org, without which a resolver that validates would fail for all of it.
	return toNextUnlessDenied
}

// above reports whether a name has no records, but other names of the asker below it.
func (h *Handler) above(a asker, qname string) bool {
	return names.Under(a.domain, qname) || a.scope.Empty(qname, h.domain)
}

// denial returns the rcode of an answer without data; found is set if a row has the
// name. To deny a name with others below it would deny those too (RFC 8020).
func (h *Handler) denial(a asker, qname, zone string, found bool) int {
	if found || qname == zone || zoneHas(qname, a.domain) || h.above(a, qname) {
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// isOurs reports whether the databases hold records of the type.
func isOurs(qtype uint16) bool {
	switch qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeANY:
		return true
	}
	return false
}

// isTransfer reports whether the question is for a whole zone. That is refused (RFC 5936,
// section 2.2.1), since a zone differs for each asker.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// denier replaces an NXDOMAIN of the next plugin by an answer of our own: that has a short
// TTL, and does not deny the names below.
type denier struct {
	dns.ResponseWriter
	own func() (m *dns.Msg, table string)
}

// newDenier is a function of its own, since what its closure refers to is allocated: other
// answers need not pay for that.
func newDenier(w dns.ResponseWriter, h *Handler, state request.Request, a asker, zone string, known names.Answer, found bool, snapshot time.Time) *denier {
	return &denier{w, func() (*dns.Msg, string) { return h.reply(state, a, zone, known, found, snapshot) }}
}

// WriteMsg implements dns.ResponseWriter.
func (d *denier) WriteMsg(m *dns.Msg) error {
	// With a CNAME record in the answer it is its target that does not exist (RFC 2308,
	// section 2.1).
	if m.Rcode != dns.RcodeNameError || len(m.Answer) > 0 {
		return d.ResponseWriter.WriteMsg(m)
	}
	own, _ := d.own()
	own.RecursionAvailable = m.RecursionAvailable
	return d.ResponseWriter.WriteMsg(own)
}
