// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punt"
)

// log and the metrics of the server show the outcome of a query without an answer instead of the rcode.
func init() {
	dns.RcodeToString[punt.RcodeResumed] = "RESUMED"
	dns.RcodeToString[punt.RcodeDropped] = "DROPPED"
}

// outcome stands below log and prometheus. A query without an answer counts there as an error,
// or as NOERROR. So outcome writes them a message with the outcome, which the writer of the
// exchange does not send.
type outcome struct{ next plugin.Handler }

func newOutcome(next plugin.Handler) *outcome {
	if next == nil {
		next = endOfChain{}
	}
	return &outcome{next}
}

// endOfChain is for a chain whose last plugin is log or prometheus.
type endOfChain struct{}

func (endOfChain) Name() string { return name }

func (endOfChain) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return plugin.NextOrFailure(name, nil, ctx, w, r)
}

// Name implements plugin.Handler.
func (*outcome) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *outcome) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	code, err := plugin.NextOrFailure(name, h.next, ctx, w, r)
	if x, ok := punt.FromContext(ctx); ok {
		if rcode := outcomeOf(x, code); rcode != 0 {
			m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: r.Id, Response: true, Rcode: rcode}}
			_ = w.WriteMsg(m) // the error says that it is not sent
		}
	}
	return code, err
}

// outcomeOf returns the outcome of a query whose chain has returned code; 0 where there is an
// answer or the server will write one.
func outcomeOf(x *punt.Exchange, code int) int {
	rcode, done := x.Unanswered()
	if !done && plugin.ClientWrite(code) {
		return punt.RcodeDropped
	}
	return rcode
}
