// SPDX-License-Identifier: Apache-2.0

package private

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
)

// rebindOptions say which answers of others may have private addresses.
type rebindOptions struct {
	// on is set where they are removed.
	on bool
	// except are the zones of names that may have them.
	except []string
}

// pass has the next plugin answer. The root has no addresses that anybody would connect to.
func (h *Handler) pass(ctx context.Context, state request.Request) (int, error) {
	w := state.W
	if h.rebind.on && state.Name() != "." && plugin.Zones(h.rebind.except).Matches(state.Name()) == "" {
		w = &rebindFilter{w, ctx, state, h.ttl}
	}
	return plugin.NextOrFailure(Name, h.Next, ctx, w, state.Req)
}

// rebindFilter removes records with private addresses from an answer. An answer that has
// nothing left is one without data.
type rebindFilter struct {
	dns.ResponseWriter
	ctx   context.Context
	state request.Request
	ttl   uint32 // of an answer without data, in seconds
}

// WriteMsg implements dns.ResponseWriter.
func (f *rebindFilter) WriteMsg(m *dns.Msg) error {
	if slices.ContainsFunc(m.Answer, hasPrivateAddress) || slices.ContainsFunc(m.Extra, hasPrivateAddress) {
		m = f.filtered(m)
		if x := explain.Of(f.ctx); x != nil {
			x.Notef("private addresses in the answer of another are removed") // and not counted
		} else {
			rebindRemoved.WithLabelValues(metrics.WithServer(f.ctx), metrics.WithView(f.ctx)).Inc()
		}
		return origin.ReplaceAnswer(f.ResponseWriter, m)
	}
	return f.ResponseWriter.WriteMsg(m)
}

// filtered returns m without records that have private addresses. m itself may be another's.
func (f *rebindFilter) filtered(m *dns.Msg) *dns.Msg {
	c := *m
	// The signature does not cover the remaining records.
	c.AuthenticatedData = false
	c.Answer, c.Extra = without(m.Answer), without(m.Extra)
	qtype := f.state.QType()
	left := func(rr dns.RR) bool { return rr.Header().Rrtype == qtype || qtype == dns.TypeANY }
	if len(c.Answer) < len(m.Answer) && !slices.ContainsFunc(c.Answer, left) {
		empty := authority.Deny(&f.state, dns.RcodeSuccess, f.ttl)
		c.Answer, c.Ns, c.Rcode = nil, empty.Ns, empty.Rcode
	}
	return &c
}

// without returns the records without a private address, and without the signatures of sets that have lost a
// record.
func without(rrs []dns.RR) []dns.RR {
	type set struct {
		owner  string
		rrtype uint16
	}
	setOf := func(h *dns.RR_Header, rrtype uint16) set { return set{strings.ToLower(h.Name), rrtype} }
	changed := map[set]bool{}
	for _, rr := range rrs {
		if hasPrivateAddress(rr) {
			changed[setOf(rr.Header(), rr.Header().Rrtype)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rrs), func(rr dns.RR) bool {
		if sig, ok := rr.(*dns.RRSIG); ok {
			return changed[setOf(&sig.Hdr, sig.TypeCovered)]
		}
		return hasPrivateAddress(rr)
	})
}

// hasPrivateAddress reports whether a record leads to a private address: an A or AAAA record, or
// a hint of an HTTPS or SVCB record (RFC 9460, section 7.3).
func hasPrivateAddress(rr dns.RR) bool {
	switch rr := rr.(type) {
	case *dns.A:
		return isPrivateIP(rr.A)
	case *dns.AAAA:
		return isPrivateIP(rr.AAAA)
	case *dns.HTTPS:
		return slices.ContainsFunc(rr.Value, isPrivateHint)
	case *dns.SVCB:
		return slices.ContainsFunc(rr.Value, isPrivateHint)
	}
	return false
}

func isPrivateHint(v dns.SVCBKeyValue) bool {
	switch v := v.(type) {
	case *dns.SVCBIPv4Hint:
		return slices.ContainsFunc(v.Hint, isPrivateIP)
	case *dns.SVCBIPv6Hint:
		return slices.ContainsFunc(v.Hint, isPrivateIP)
	}
	return false
}

func isPrivateIP(ip net.IP) bool {
	a, ok := netip.AddrFromSlice(ip)
	return ok && isPrivate(a.Unmap())
}

var (
	// translated4 is the prefix of IPv4 addresses behind a NAT64 (RFC 6052, section 2.1).
	translated4 = netip.MustParsePrefix("64:ff9b::/96")
	// privatePrefixes are what netip does not call private, loopback or link-local: "this
	// network" (RFC 791, section 3.2) and shared address space (RFC 6598).
	privatePrefixes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10")}
)

// isPrivate reports whether an address belongs to a network that an outside name has no
// business in. a is no IPv4-mapped one.
func isPrivate(a netip.Addr) bool {
	if translated4.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() ||
		slices.ContainsFunc(privatePrefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
