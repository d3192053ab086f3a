// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// EmptyZone is a locally served zone (RFC 6303, section 3): it has SOA and NS records at its apex, and hardly a name
// below. It is the same for all guests. It is immutable.
type EmptyZone struct {
	// Name is fully qualified and in lower case.
	Name string
	// TTL applies to all records and denials, in seconds.
	TTL uint32
	// Lookup returns the addresses and PTR targets of a name in the zone, and whether the name exists. The
	// name is in lower case. Lookup is nil for a zone without names.
	Lookup func(qname string) (known names.Answer, exists bool)
}

// Reply returns the answer to a question of class IN for a name in the zone. exists is set for a name that exists
// without records in the zone. The apex always exists.
func (z *EmptyZone) Reply(state *request.Request, exists bool) *dns.Msg {
	m := new(dns.Msg).SetReply(state.Req)
	m.Authoritative = true
	qname, qtype := state.Name(), state.QType()
	if z.Lookup != nil {
		known, found := z.Lookup(qname)
		p := Policy{TTL: z.TTL}
		m.Answer = p.records(state.QName(), qtype, known)
		exists = exists || found
	}
	if qname == z.Name {
		exists = true
		if qtype == dns.TypeSOA || qtype == dns.TypeANY {
			m.Answer = append(m.Answer, emptySOA(state.QName(), z.Name, z.TTL))
		}
		if qtype == dns.TypeNS || qtype == dns.TypeANY {
			hdr := dns.RR_Header{Name: state.QName(), Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: z.TTL}
			m.Answer = append(m.Answer, &dns.NS{Hdr: hdr, Ns: z.Name})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = denial(z.Name, z.TTL)
		if !exists {
			m.Rcode = dns.RcodeNameError
		}
	}
	return m
}

// Deny returns an answer without data, NXDOMAIN or NOERROR, for a name in no zone. The name must not be the root. The
// owner of the SOA record is the last label, never the root: a resolver might deny other names by it (RFC
// 8020). ttl is in seconds.
func Deny(state *request.Request, rcode int, ttl uint32) *dns.Msg {
	m := new(dns.Msg).SetRcode(state.Req, rcode)
	m.Authoritative = true
	m.Ns = denial(negativeOwner(state.Name(), "", "."), ttl)
	return m
}

// denial returns the authority section of an answer without data.
func denial(zone string, ttl uint32) []dns.RR { return []dns.RR{emptySOA(zone, zone, ttl)} }

// emptySOA returns the SOA record of RFC 6303, section 3. The zone is its own server and has no address, so that no
// client sends it updates. Without transfers, the timers have no meaning.
func emptySOA(owner, zone string, ttl uint32) *dns.SOA {
	return &dns.SOA{
		Hdr:     dns.RR_Header{Name: owner, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:      zone,
		Mbox:    "nobody.invalid.",
		Serial:  1,
		Refresh: 3600,
		Retry:   1200,
		Expire:  604800,
		Minttl:  ttl,
	}
}
