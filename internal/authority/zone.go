// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// fromZone is the source of the zone's own records.
const fromZone = "zone"

// The server has two labels, so that a port is unlikely to have its name.
const (
	serverLabels = "ns.dns."
	serverParent = "dns."
	mailLabels   = "hostmaster."
)

// maxName is in text without escapes (RFC 1035, section 2.3.4).
const maxName = 254

// within returns the zone if the name would be too long.
func within(zone, labels string) string {
	if len(labels)+len(zone) > maxName {
		return zone
	}
	return labels + zone
}

// soa has the read's Unix time as its serial. ttl is in seconds.
func soa(zone string, read time.Time, ttl uint32) *dns.SOA {
	return &dns.SOA{
		Hdr:     dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:      within(zone, serverLabels),
		Mbox:    within(zone, mailLabels),
		Serial:  uint32(read.Unix()),
		Refresh: 7200,
		Retry:   1800,
		Expire:  86400,
		Minttl:  negativeTTL,
	}
}

// zoneHas is about the zone's own records.
func zoneHas(qname, domain string) bool {
	if !names.Under(qname, domain) {
		return false
	}
	switch qname[:len(qname)-len(domain)] {
	case "", serverLabels, serverParent:
		return true
	}
	return false
}

// addZone adds SOA, NS and the server's address, unless a port or a row has its name.
func (p *Policy) addZone(m *dns.Msg, q *Question) {
	state, a := &q.State, &q.Asker
	qname := state.Name()
	if !names.Under(qname, a.Domain) {
		return
	}
	ours := state.QClass() == dns.ClassINET
	switch qname[:len(qname)-len(a.Domain)] {
	case "":
		if qtype := state.QType(); ours && (qtype == dns.TypeSOA || qtype == dns.TypeANY) {
			rr := soa(a.Domain, q.Time, p.TTL)
			rr.Hdr.Name = state.QName()
			m.Answer = append(m.Answer, rr)
		}
		if qtype := state.QType(); ours && (qtype == dns.TypeNS || qtype == dns.TypeANY) {
			server := within(a.Domain, serverLabels)
			m.Answer = append(m.Answer, &dns.NS{Hdr: p.header(state.QName(), dns.TypeNS), Ns: server})
			known, ok := a.Scope.Lookup(server, p.Domain)
			if !ok {
				known = a.server(state.W)
			}
			m.Extra = append(m.Extra, p.addresses(server, dns.TypeANY, known)...)
		}
	case serverLabels:
		if ours && !q.Found {
			m.Answer = p.records(state.QName(), state.QType(), a.server(state.W))
		}
	}
}

// server returns the query's destination, which the asker can reach.
func (a *Asker) server(w dns.ResponseWriter) (known names.Answer) {
	var address netip.Addr
	if a.Origin != nil {
		address = a.Origin.Destination.Addr()
	} else if at, err := netip.ParseAddrPort(w.LocalAddr().String()); err == nil {
		address = at.Addr()
	}
	switch address = address.Unmap().WithZone(""); {
	case !address.IsValid() || address.IsUnspecified():
	case address.Is4():
		known.V4 = []netip.Addr{address}
	default:
		known.V6 = []netip.Addr{address}
	}
	return known
}
