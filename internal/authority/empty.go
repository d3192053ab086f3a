// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// EmptyZone is a locally served zone (RFC 6303, section 3), the same for all guests. It is immutable.
type EmptyZone struct {
	// Name is a lower-case FQDN.
	Name string
	// TTL is in seconds.
	TTL uint32
	// Lookup returns the addresses and PTR targets of a lower-case name, and whether it exists. May be nil.
	Lookup func(qname string) (known names.Answer, exists bool)
}

// Reply answers a question of class IN in the zone. exists is set for a name that exists without records.
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

// Deny answers without data for a name in no zone, not the root. The SOA owner is the last label: the root
// might deny other names (RFC 8020). ttl is in seconds.
func Deny(state *request.Request, rcode int, ttl uint32) *dns.Msg {
	m := new(dns.Msg).SetRcode(state.Req, rcode)
	m.Authoritative = true
	m.Ns = denial(negativeOwner(state.Name(), "", "."), ttl)
	return m
}

func denial(zone string, ttl uint32) []dns.RR { return []dns.RR{emptySOA(zone, zone, ttl)} }

// emptySOA is as in RFC 6303, section 3: the zone is its own server without an address, so clients send no
// updates.
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
