// SPDX-License-Identifier: Apache-2.0

package private

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
)

type rebindOptions struct {
	// on removes private addresses from other servers' answers.
	on bool
	// except are zones whose names may have private addresses.
	except []string
}

// The root is not filtered: no client connects to it.
func (h *Handler) pass(ctx context.Context, state request.Request) (int, error) {
	w := state.W
	if h.rebind.on && state.Name() != "." && plugin.Zones(h.rebind.except).Matches(state.Name()) == "" {
		w = &rebindFilter{w, ctx, state, h.ttl}
	}
	return plugin.NextOrFailure(Name, h.Next, ctx, w, state.Req)
}

// rebindFilter removes records with private addresses. An answer without a record left is NODATA.
type rebindFilter struct {
	dns.ResponseWriter
	ctx   context.Context
	state request.Request
	ttl   uint32 // of NODATA, in seconds
}

func (f *rebindFilter) WriteMsg(m *dns.Msg) error {
	if slices.ContainsFunc(m.Answer, hasPrivateAddress) || slices.ContainsFunc(m.Extra, hasPrivateAddress) {
		m = f.filtered(m)
		if x := explain.Of(f.ctx); x != nil {
			x.Notef("private addresses in the answer of another are removed") // and not counted
		} else {
			rebindRemoved.Inc(f.ctx)
		}
		return origin.ReplaceAnswer(f.ResponseWriter, m)
	}
	return f.ResponseWriter.WriteMsg(m)
}

// filtered copies m, which may be shared.
func (f *rebindFilter) filtered(m *dns.Msg) *dns.Msg {
	c := *m
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

// without also drops signatures of sets that have lost a record.
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

// hasPrivateAddress also checks hints of HTTPS and SVCB (RFC 9460, section 7.3).
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
	return ok && address.IsSpecial(a)
}
