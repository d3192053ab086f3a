// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"time"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// route says who answers a question that the asker's networks have no name for.
type route uint8

const (
	// toHere: it is denied here, or answered with what the zone itself has.
	toHere route = iota
	toNext
	// toNextUnlessDenied: the next plugin may have data, but its name error is not the
	// last word on the name.
	toNextUnlessDenied
)

// route decides by fallthrough. A zone that fallthrough names passes on all that
// lies in it. Without zones it leaves what is the asker's own here: a denial from
// elsewhere would be remembered for as long as its SOA says, in which a name may
// come into being, and that of a name with others below denies those too
// (RFC 8020). Where the guest asked a server of its own choice, that server may
// know better. It is not a plugin that answers then, so a plugin's denial of such
// names is no better than elsewhere.
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
	// A row www.example.org is no word on the mail of example.org, nor on the keys
	// of org: a resolver that validates would lose all of it.
	return toNextUnlessDenied
}

// above reports whether a name has nothing itself, but names of the asker below it.
func (h *Handler) above(a asker, qname string) bool {
	return names.Under(a.domain, qname) || a.scope.Empty(qname, h.domain)
}

// denial is the rcode of an answer without data; found is set where a row has the
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

// isTransfer reports whether the question is for a whole zone: nobody gets that
// here (RFC 5936, section 2.2.1), since a zone is made for one asker at a time.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// denier puts an answer of our own in the place of a name error of the next plugin: its
// denial is shorter, and leaves the names below alone.
type denier struct {
	dns.ResponseWriter
	own func() (m *dns.Msg, table string)
}

// newDenier is apart from where answers are made: what its function refers to is allocated.
func newDenier(w dns.ResponseWriter, h *Handler, state request.Request, a asker, zone string, known names.Answer, found bool, snapshot time.Time) *denier {
	return &denier{w, func() (*dns.Msg, string) { return h.reply(state, a, zone, known, found, snapshot) }}
}

// WriteMsg implements dns.ResponseWriter.
func (d *denier) WriteMsg(m *dns.Msg) error {
	// Behind an alias it is the alias's target that does not exist (RFC 2308,
	// section 2.1).
	if m.Rcode != dns.RcodeNameError || len(m.Answer) > 0 {
		return d.ResponseWriter.WriteMsg(m)
	}
	own, _ := d.own()
	own.RecursionAvailable = m.RecursionAvailable
	return d.ResponseWriter.WriteMsg(own)
}
