// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const maxChain = 16

// appendChain appends the question's name and the target of each CNAME record.
func appendChain(chain []string, m *dns.Msg, qname string) []string {
	chain = append(chain, qname)
	for range maxChain {
		i := slices.IndexFunc(m.Answer, func(rr dns.RR) bool {
			c, ok := rr.(*dns.CNAME)
			return ok && strings.EqualFold(c.Hdr.Name, chain[len(chain)-1])
		})
		if i < 0 {
			break
		}
		chain = append(chain, m.Answer[i].(*dns.CNAME).Target)
	}
	return chain
}

func onChain(chain []string, owner string) bool {
	return slices.ContainsFunc(chain, func(name string) bool { return strings.EqualFold(name, owner) })
}

// addressesIn takes the records of the question's type and class. rpz does not judge the addresses of others.
func addressesIn(m *dns.Msg, question dns.Question) iter.Seq2[dns.RR, netip.Addr] {
	return func(yield func(dns.RR, netip.Addr) bool) {
		var some [4]net.IP // more are rare
		for _, rr := range m.Answer {
			if !isAsked(rr.Header(), question) {
				continue
			}
			for _, ip := range appendAddresses(some[:0], rr) {
				if a, ok := netip.AddrFromSlice(ip); ok && !yield(rr, a.Unmap()) {
					return
				}
			}
		}
	}
}

func isAsked(h *dns.RR_Header, q dns.Question) bool {
	return (q.Qtype == h.Rrtype || q.Qtype == dns.TypeANY) && h.Class == dns.ClassINET && (q.Qclass == dns.ClassINET || q.Qclass == dns.ClassANY)
}

// Clients connect to hints before they ask for addresses (RFC 9460, section 7.3).
func appendAddresses(all []net.IP, rr dns.RR) []net.IP {
	switch rr := rr.(type) {
	case *dns.A:
		return append(all, rr.A)
	case *dns.AAAA:
		return append(all, rr.AAAA)
	case *dns.HTTPS:
		return appendHints(all, rr.Value)
	case *dns.SVCB:
		return appendHints(all, rr.Value)
	}
	return all
}

func appendHints(all []net.IP, values []dns.SVCBKeyValue) []net.IP {
	for _, v := range values {
		switch v := v.(type) {
		case *dns.SVCBIPv4Hint:
			all = append(all, v.Hint...)
		case *dns.SVCBIPv6Hint:
			all = append(all, v.Hint...)
		}
	}
	return all
}
