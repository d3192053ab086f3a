// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// normalizer stands above *cache*, whose key has the question, DO and CD. It equalizes all other parts of a query,
// which may change an upstream's answer: without RD the answer is a referral, with a client subnet (RFC 7871) for
// another location. It sets RD, and removes other records and EDNS options, which are hop-by-hop (RFC 6891, section
// 6.1.1). *cache* itself sets AD.
type normalizer struct{ next plugin.Handler }

// Normalize returns the handler before *cache* and *rewrite*.
func Normalize(next plugin.Handler) plugin.Handler { return &normalizer{next} }

func (*normalizer) Name() string { return name }

func (h *normalizer) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if !isNormalized(r) {
		w, r = &rdRestorer{w, r.RecursionDesired}, normalized(r)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

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

// DO (RFC 3225, section 3) in the TTL of OPT
const flagDO = 1 << 15

// normalized also keeps the client's buffer size. It shares the question with r.
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

// rdRestorer restores the guest's RD (RFC 1035, section 4.1.1).
type rdRestorer struct {
	dns.ResponseWriter
	rd bool
}

func (w *rdRestorer) WriteMsg(m *dns.Msg) error {
	m.RecursionDesired = w.rd
	return w.ResponseWriter.WriteMsg(m)
}
