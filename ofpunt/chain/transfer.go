// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// isTransfer reports whether r asks for a zone transfer (RFC 5936, RFC 1995).
func isTransfer(r *dns.Msg) bool {
	return len(r.Question) > 0 && (r.Question[0].Qtype == dns.TypeAXFR || r.Question[0].Qtype == dns.TypeIXFR)
}

// noTransfers stands behind *transfer*, which passes on queries for other zones. An upstream of *forward* may have the
// zone and give it to this node's address. Nothing can be resumed: *transfer* passes only TCP.
type noTransfers struct{ next plugin.Handler } // nil at the end of a chain

func (*noTransfers) Name() string { return name }

func (h *noTransfers) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if _, punted := origin.FromContext(ctx); !punted || !isTransfer(r) {
		return plugin.NextOrFailure(name, h.next, ctx, w, r)
	}
	// Written here, so that tsig signs it and log has its rcode.
	return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused))
}
