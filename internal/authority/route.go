// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// route is who answers a question for a name or a type that the asker's networks do not have.
type route uint8

const (
	// toHere: this plugin denies the name, or answers with the records of the zone itself.
	toHere route = iota
	// toNext: the next plugin answers.
	toNext
	// toNextUnlessDenied: the next plugin answers, but its NXDOMAIN is replaced by our
	// answer.
	toNextUnlessDenied
)

// route decides by the property fallthrough, with these rules:
//
//   - A name that the asker's network forwards goes to the next plugin. If the asker has names below it, an
//     NXDOMAIN is replaced: the forward servers do not know these names.
//   - fallthrough with zones passes on all names in the zones.
//   - fallthrough without zones keeps names in the asker's domain, and names above other names of the
//     asker. Another server's denial would be cached while the name may be created, and denies all
//     names below (RFC 8020).
//   - In hijack mode the guest has chosen a server, which may have such names. They are passed on, and an
//     NXDOMAIN of a plugin is replaced.
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
	// A row www.example.org does not decide about the MX records of example.org or the DNSSEC keys of org. Without
	// these keys, a validating resolver would fail for all of org.
	return toNextUnlessDenied
}

// forwards reports whether the asker's network has named servers for a name.
func (a *Asker) forwards(qname string, qtype uint16) bool {
	return a.Forwards != nil && a.Forwards(qname, qtype)
}

// above reports whether a name has no records and other names of the asker are below it.
func (p *Policy) above(a *Asker, qname string) bool {
	return names.Under(a.Domain, qname) || a.Scope.Empty(qname, p.Domain)
}

// denial returns the rcode of an answer without data. found is set if the name has records. A denial of a name would
// also deny all names below it (RFC 8020).
func (p *Policy) denial(a *Asker, qname, zone string, found bool) int {
	if found || qname == zone || zoneHas(qname, a.Domain) || p.above(a, qname) {
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// isOurs reports whether records of the type are made of addresses. A name above other names may have records of
// other types on another server.
func isOurs(qtype uint16) bool {
	switch qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeANY:
		return true
	}
	return false
}

// isOfParent reports whether the question is for the DS records of the asker's domain. The parent zone has them, or
// the proof that they do not exist (RFC 4035, section 3.1.4.1). With this proof a validating resolver accepts
// our unsigned answers.
func isOfParent(a *Asker, qname string, qtype uint16) bool {
	return qtype == dns.TypeDS && a.Domain != "" && qname == a.Domain
}

// isTransfer reports whether the question is for a whole zone. Transfers are refused (RFC 5936, section 2.2.1): a zone
// differs for each guest.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// denier replaces an NXDOMAIN of the next plugin by the reply of this one, which has a short TTL and does not deny the
// names below.
type denier struct {
	dns.ResponseWriter
	own func() (m *dns.Msg, table string)
}

// newDenier is a separate function, so that only these queries allocate the variables of its closure.
func newDenier(p *Policy, q Question) *denier {
	return &denier{q.State.W, func() (*dns.Msg, string) { return p.reply(&q) }}
}

// WriteMsg implements dns.ResponseWriter.
func (d *denier) WriteMsg(m *dns.Msg) error {
	// With a CNAME record in the answer, the target does not exist (RFC 2308, section 2.1).
	if m.Rcode != dns.RcodeNameError || len(m.Answer) > 0 {
		return d.ResponseWriter.WriteMsg(m)
	}
	own, _ := d.own()
	own.RecursionAvailable = m.RecursionAvailable
	return d.ResponseWriter.WriteMsg(own)
}
