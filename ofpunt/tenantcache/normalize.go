// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// normalizer stands above *cache*. It makes the parts of a query that are not in the key of *cache* the same
// in every query. The key has the question, DO and CD. Other parts may change the answer of an upstream,
// which other guests would then get: without RD it is a referral, with a client subnet (RFC 7871) the answer
// for another location. So RD is set, and the query has no options of EDNS, which are for the next hop only
// (RFC 6891, section 6.1.1), and no further records. The answer has the guest's RD. *cache* itself sets AD.
type normalizer struct{ next plugin.Handler }

// Normalize returns the handler that stands before *cache*, and before *rewrite* where that is
// there.
func Normalize(next plugin.Handler) plugin.Handler { return &normalizer{next} }

// Name implements plugin.Handler.
func (*normalizer) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *normalizer) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if !isNormalized(r) {
		w, r = &rdRestorer{w, r.RecursionDesired}, normalized(r)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// isNormalized reports whether r has nothing but what the key of cache has.
func isNormalized(r *dns.Msg) bool {
	h := &r.MsgHdr
	if !h.RecursionDesired || h.Authoritative || h.Truncated || h.RecursionAvailable || h.Zero || h.Rcode != 0 ||
		len(r.Answer)+len(r.Ns) > 0 {
		return false
	}
	switch len(r.Extra) {
	case 0:
		return true
	case 1:
		o, ok := r.Extra[0].(*dns.OPT)
		return ok && len(o.Option) == 0 && o.Hdr.Ttl&^flagDO == 0
	}
	return false
}

// flagDO is the one flag of EDNS (RFC 3225, section 3) in the TTL of an OPT record.
const flagDO = 1 << 15

// normalized returns r with nothing but what the key of cache has, and the size of the
// client's buffer. It shares the question with r.
func normalized(r *dns.Msg) *dns.Msg {
	m := &dns.Msg{Question: r.Question}
	m.Id, m.Opcode, m.RecursionDesired = r.Id, r.Opcode, true
	m.CheckingDisabled, m.AuthenticatedData = r.CheckingDisabled, r.AuthenticatedData
	if o := r.IsEdns0(); o != nil {
		p := &dns.OPT{Hdr: o.Hdr}
		p.Hdr.Ttl &= flagDO
		m.Extra = []dns.RR{p}
	}
	return m
}

// rdRestorer gives the answer to a normalized query the RD that the guest's query has (RFC
// 1035, section 4.1.1).
type rdRestorer struct {
	dns.ResponseWriter
	rd bool
}

// WriteMsg implements dns.ResponseWriter.
func (w *rdRestorer) WriteMsg(m *dns.Msg) error {
	m.RecursionDesired = w.rd
	return w.ResponseWriter.WriteMsg(m)
}
