// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"math/rand/v2"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// reply also returns the source of its data, empty without data.
func (p *Policy) reply(q *Question) (m *dns.Msg, table string) {
	state := &q.State
	m = new(dns.Msg).SetReply(state.Req)
	m.Authoritative = true
	if q.Found {
		table = q.Known.SourceOf(state.QType()).String()
		if state.QClass() == dns.ClassINET {
			m.Answer = p.records(state.QName(), state.QType(), q.Known)
		}
	}
	p.addZone(m, q)
	if table == "" && len(m.Answer) > 0 {
		table = fromZone
	}
	qname := state.Name()
	m.Rcode = p.denial(&q.Asker, qname, q.Zone, q.Found)
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(negativeOwner(qname, q.Asker.Domain, q.Zone), q.Time, negativeTTL)}
	}
	return m, table
}

func (p *Policy) header(owner string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: p.TTL}
}

// records returns the records of a type, with the question's owner. A CNAME matches any type.
func (p *Policy) records(owner string, qtype uint16, known names.Answer) []dns.RR {
	rrs := p.addresses(owner, qtype, known)
	if qtype == dns.TypePTR || qtype == dns.TypeANY {
		for _, target := range known.PTR {
			rrs = append(rrs, &dns.PTR{Hdr: p.header(owner, dns.TypePTR), Ptr: target})
		}
	}
	if known.RRs != nil {
		rrs = p.appendRRs(rrs, owner, known.RRs.Of(qtype))
	}
	return rrs
}

func (p *Policy) addresses(owner string, qtype uint16, known names.Answer) []dns.RR {
	var rrs []dns.RR
	if qtype == dns.TypeA || qtype == dns.TypeANY {
		for _, a := range known.V4 {
			rrs = append(rrs, &dns.A{Hdr: p.header(owner, dns.TypeA), A: addr(a)})
		}
		p.order(rrs)
	}
	if qtype == dns.TypeAAAA || qtype == dns.TypeANY {
		before := len(rrs)
		for _, a := range known.V6 {
			rrs = append(rrs, &dns.AAAA{Hdr: p.header(owner, dns.TypeAAAA), AAAA: addr(a)})
		}
		p.order(rrs[before:])
	}
	return rrs
}

// appendRRs copies: plugins above may change records.
func (p *Policy) appendRRs(rrs []dns.RR, owner string, all []dns.RR) []dns.RR {
	first := len(rrs)
	for _, rr := range all {
		rr = dns.Copy(rr)
		*rr.Header() = p.header(owner, rr.Header().Rrtype)
		rrs = append(rrs, rr)
	}
	p.order(rrs[first:])
	return rrs
}

func (p *Policy) order(rrs []dns.RR) {
	if p.Shuffle {
		rand.Shuffle(len(rrs), func(i, j int) { rrs[i], rrs[j] = rrs[j], rrs[i] })
	}
}

// addr copies: plugins above may change a record.
func addr(a netip.Addr) []byte { return a.AsSlice() }
