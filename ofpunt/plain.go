// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// plainQuestion stands above cache. The key of cache has the question, DO and CD. What
// else is in a query may change the answer of an upstream, which others would then
// get: without RD it is a referral, with a client subnet (RFC 7871) it is that for
// another place. So what is not in the key is the same in every query: RD is set, and
// there are no options of EDNS, which are for the next hop only in any case (RFC 6891,
// section 6.1.1), and no further records. The guest's own RD stands in the answer.
//
// AD is left alone: cache sets it itself.
type plainQuestion struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*plainQuestion) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *plainQuestion) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if !isPlain(r) {
		w, r = &asAsked{w, r.RecursionDesired}, plain(r)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// isPlain reports whether r has nothing but what the key of cache has.
func isPlain(r *dns.Msg) bool {
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

// plain returns r with nothing but what the key of cache has, and the size of the
// client's buffer. It shares the question with r.
func plain(r *dns.Msg) *dns.Msg {
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

// asAsked gives the answer to a plain question the RD of the one that was asked (RFC
// 1035, section 4.1.1).
type asAsked struct {
	dns.ResponseWriter
	rd bool
}

// WriteMsg implements dns.ResponseWriter.
func (w *asAsked) WriteMsg(m *dns.Msg) error {
	m.RecursionDesired = w.rd
	return w.ResponseWriter.WriteMsg(m)
}
