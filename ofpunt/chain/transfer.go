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

// noTransfers stands behind *transfer*, which passes queries for zones that it does not have. An upstream of
// *forward* may have such a zone, and would give it to the address of this node. There is nothing to resume:
// *transfer* passes only TCP queries.
type noTransfers struct{ next plugin.Handler } // nil at the end of a chain

// Name implements plugin.Handler.
func (*noTransfers) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *noTransfers) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if _, punted := origin.FromContext(ctx); !punted || !isTransfer(r) {
		return plugin.NextOrFailure(name, h.next, ctx, w, r)
	}
	// The message is written here, so that tsig signs it and log has its rcode.
	return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused))
}
