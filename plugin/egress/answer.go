// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/plugin/egress/policy"
)

// answerWriter looks at the answer to a name that a policy allows, and leaves it as it is.
type answerWriter struct {
	dns.ResponseWriter
	query *query
	// by is the policy that allows the name.
	by *guestPolicy
}

// WriteMsg implements dns.ResponseWriter.
func (w *answerWriter) WriteMsg(m *dns.Msg) error {
	if a := w.query.closed(m); a.IsValid() {
		w.query.recordWouldClose(w.by, a)
	}
	return w.ResponseWriter.WriteMsg(m)
}

// closed returns the first address of an answer that the policies of the guest would not open, the zero value for none: an
// address that is not of the public Internet, or an address that does not belong to the name. Either opens if an entry has
// the address itself.
func (q *query) closed(m *dns.Msg) netip.Addr {
	chain := chainOf(m, q.state.QName())
	for _, rr := range m.Answer {
		for _, ip := range addressesOf(rr) {
			a, ok := netip.AddrFromSlice(ip)
			if !ok {
				continue
			}
			a = a.Unmap()
			if (policy.IsSpecial(a) || !onChain(chain, rr.Header().Name)) && !q.opens(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// opens reports whether an entry of the guest's policies has an address.
func (q *query) opens(a netip.Addr) bool {
	return slices.ContainsFunc(q.numbers, func(i int) bool { return q.handler.policies[i].rules.Address(a) != nil })
}

// maxChain bounds the CNAME records of an answer that are followed.
const maxChain = 16

// chainOf returns the names that an answer leads to: the name of the question, then the target of each CNAME record.
func chainOf(m *dns.Msg, qname string) (chain []string) {
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

// addressesOf returns the addresses of a record: of A and AAAA, and the hints of HTTPS and SVCB, to which clients connect
// before they ask for addresses (RFC 9460, section 7.3).
func addressesOf(rr dns.RR) []net.IP {
	switch rr := rr.(type) {
	case *dns.A:
		return []net.IP{rr.A}
	case *dns.AAAA:
		return []net.IP{rr.AAAA}
	case *dns.HTTPS:
		return hintsOf(rr.Value)
	case *dns.SVCB:
		return hintsOf(rr.Value)
	}
	return nil
}

func hintsOf(values []dns.SVCBKeyValue) (all []net.IP) {
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
