// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

type route uint8

const (
	// toHere: this plugin denies, or has the zone's own records.
	toHere route = iota
	toNext
	// toNextUnlessDenied: our reply replaces an NXDOMAIN of the next plugin.
	toNextUnlessDenied
)

// route decides by the property fallthrough:
//
//   - A name that the asker's network forwards goes to the next plugin. If the asker has names below it, an
//     NXDOMAIN is replaced: the forward servers do not know these names.
//   - fallthrough with zones passes on all names in the zones.
//   - fallthrough without zones keeps names in the asker's domain, and names above other names of the
//     asker: another server's denial would be cached, and denies all names below (RFC 8020).
//   - In hijack mode names are passed on, as the guest's server may have them. An NXDOMAIN of a plugin is
//     replaced.
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
	// A row www.example.org does not decide about MX of example.org or DNSKEY of org, without which
	// validation of all of org fails.
	return toNextUnlessDenied
}

func (a *Asker) forwards(qname string, qtype uint16) bool {
	return a.Forwards != nil && a.Forwards(qname, qtype)
}

// above reports an empty non-terminal of the asker.
func (p *Policy) above(a *Asker, qname string) bool {
	return names.Under(a.Domain, qname) || a.Scope.Empty(qname, p.Domain)
}

// denial returns the rcode without data. found is set if the name has records. NXDOMAIN also denies all names
// below (RFC 8020).
func (p *Policy) denial(a *Asker, qname, zone string, found bool) int {
	if found || qname == zone || zoneHas(qname, a.Domain) || p.above(a, qname) {
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// isOurs is true for types made of addresses; another server may have other types.
func isOurs(qtype uint16) bool {
	switch qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeANY:
		return true
	}
	return false
}

// isOfParent is for DS of the asker's domain: the parent's proof (RFC 4035, section 3.1.4.1) makes validation
// accept our unsigned answers.
func isOfParent(a *Asker, qname string, qtype uint16) bool {
	return qtype == dns.TypeDS && a.Domain != "" && qname == a.Domain
}

// isTransfer reports a transfer, which is refused (RFC 5936, section 2.2.1), as a zone differs for each
// guest.
func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// denier replaces an NXDOMAIN by a reply that does not deny names below.
type denier struct {
	dns.ResponseWriter
	own func() (m *dns.Msg, table string)
}

// newDenier is separate, so that only these queries allocate.
func newDenier(p *Policy, q Question) *denier {
	return &denier{q.State.W, func() (*dns.Msg, string) { return p.reply(&q) }}
}

func (d *denier) WriteMsg(m *dns.Msg) error {
	// With a CNAME, NXDOMAIN is about its target (RFC 2308, section 2.1).
	if m.Rcode != dns.RcodeNameError || len(m.Answer) > 0 {
		return d.ResponseWriter.WriteMsg(m)
	}
	own, _ := d.own()
	own.RecursionAvailable = m.RecursionAvailable
	return d.ResponseWriter.WriteMsg(own)
}
