// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// route says who answers a question for a name that the asker's networks do not have, or for
// data that are not theirs to tell.
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

// route decides by the property fallthrough, but for names that the asker's network forwards: those
// go to the next plugin in any case. Their servers do not know of the asker's names, so they can't
// deny a name that has some of these below it. With zones, all names in one of these go to
// the next plugin. Without zones, names of the asker's own domain, and names that have
// others of the asker below them, stay here. A denial from elsewhere would be cached for as long
// as its SOA says, while the name may be created meanwhile; and the denial of a name with
// others below it denies those too (RFC 8020). In hijack mode the guest has asked a server
// of its own choice, which may have such names, so they go to the next plugin as well. But
// if a plugin denies one, which is not that server, the denial is replaced.
func (p *Policy) route(a *Asker, qname string, qtype uint16) route {
	own := names.Under(qname, a.Domain)
	switch {
	case a.forwards(qname, qtype):
		if p.above(a, qname) {
			return toNextUnlessDenied
		}
		return toNext
	case !p.Fall.Through(qname):
		return toHere
	case isOfParent(a, qname, qtype):
		return toNextUnlessDenied
	case !p.FallAll || !own && !p.above(a, qname):
		return toNext
	case a.Origin != nil && a.Origin.Hijacked:
		return toNextUnlessDenied
	case own || isOurs(qtype):
		return toHere
	}
	// A row www.example.org says nothing of the MX records of example.org, nor of the
	// DNSSEC keys of org, without which a resolver that validates would fail for all of it.
	return toNextUnlessDenied
}

// forwards reports whether the asker's network has named servers for a name.
func (a *Asker) forwards(qname string, qtype uint16) bool {
	return a.Forwards != nil && a.Forwards(qname, qtype)
}

// above reports whether a name has no records, but other names of the asker below it.
func (p *Policy) above(a *Asker, qname string) bool {
	return names.Under(a.Domain, qname) || a.Scope.Empty(qname, p.Domain)
}

// denial returns the rcode of an answer without data; found is set if there are records of
// the name. To deny a name with others below it would deny those too (RFC 8020).
func (p *Policy) denial(a *Asker, qname, zone string, found bool) int {
	if found || qname == zone || zoneHas(qname, a.Domain) || p.above(a, qname) {
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// isOurs reports whether records of the type are made of addresses. A name that has nothing but
// names below it here may well have others elsewhere.
func isOurs(qtype uint16) bool {
	switch qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeANY:
		return true
	}
	return false
}

// isOfParent reports whether the question is for the DS records of the asker's own domain.
// The zone above has these, or the proof that there are none (RFC 4035, section 3.1.4.1). With
// that proof a resolver that validates takes our answers, which are not signed.
func isOfParent(a *Asker, qname string, qtype uint16) bool {
	return qtype == dns.TypeDS && a.Domain != "" && qname == a.Domain
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
func newDenier(p *Policy, q Question) *denier {
	return &denier{q.State.W, func() (*dns.Msg, string) { return p.reply(&q) }}
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
