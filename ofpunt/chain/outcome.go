// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punt"
)

// log and the server's metrics show these for queries without an answer.
func init() {
	dns.RcodeToString[punt.RcodeResumed] = "RESUMED"
	dns.RcodeToString[punt.RcodeDropped] = "DROPPED"
}

// outcome stands below log and prometheus, which would count a query without an answer as an error or NOERROR. It
// writes them a message, which the exchange's writer does not send.
type outcome struct{ next plugin.Handler }

func newOutcome(next plugin.Handler) *outcome {
	if next == nil {
		next = endOfChain{}
	}
	return &outcome{next}
}

// endOfChain stands behind log or prometheus as the last plugin.
type endOfChain struct{}

func (endOfChain) Name() string { return name }

func (endOfChain) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return plugin.NextOrFailure(name, nil, ctx, w, r)
}

func (*outcome) Name() string { return name }

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

// outcomeOf returns 0 if there is an answer, or the server writes one.
func outcomeOf(x *punt.Exchange, code int) int {
	rcode, done := x.Unanswered()
	if !done && plugin.ClientWrite(code) {
		return punt.RcodeDropped
	}
	return rcode
}
