// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"errors"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// The outcome of an exchange is what its metric counts, known before the chain returns.
func TestOutcome(t *testing.T) {
	write := func(rcode int) func(*Exchange) {
		return func(x *Exchange) { _ = x.writer.WriteMsg(new(dns.Msg).SetRcode(&x.request, rcode)) }
	}
	tests := []struct {
		name string
		do   func(x *Exchange)
		want origin.Outcome // none for one that is not known
	}{
		{"nothing", func(*Exchange) {}, origin.Outcome{}},
		{"an answer", func(x *Exchange) { x.SetBlock(&Block{Recursive: true}); write(dns.RcodeNameError)(x) }, origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}},
		{"the first of two", func(x *Exchange) {
			x.SetBlock(&Block{Recursive: true})
			write(dns.RcodeSuccess)(x)
			x.drop(metric.ReasonPanic)
		}, origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}},
		{"a message for log", func(x *Exchange) { write(RcodeDropped)(x) }, origin.Outcome{}},
		{"the deadline", func(x *Exchange) { x.expire(); write(dns.RcodeSuccess)(x) }, origin.Outcome{Result: metric.Answered, Reason: metric.ReasonDeadline, Rcode: dns.RcodeServerFailure}},
		{"a loop", func(x *Exchange) { x.SetLooped(); write(dns.RcodeServerFailure)(x) }, origin.Outcome{Result: metric.Refused, Reason: metric.ReasonLoop}},
		{"no block", write(dns.RcodeRefused), origin.Outcome{Result: metric.Refused, Reason: metric.ReasonNoBlock}},
		{"an answer that is none", func(x *Exchange) { _ = x.writer.fail(errors.New("of the test")) }, origin.Outcome{Result: metric.Answered, Reason: metric.ReasonUnpackable, Rcode: dns.RcodeServerFailure}},
		{"dropped", func(x *Exchange) { x.drop(metric.ReasonUnanswered) }, origin.Outcome{Result: metric.Dropped, Reason: metric.ReasonUnanswered}},
		{"no resume of a packet that may not be", func(x *Exchange) { _ = x.Resume() }, origin.Outcome{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newChannel(t)
			x := asked(t, c, 1)
			x.ready.Store(true)
			began := time.Now()
			tt.do(x)
			got, known := x.Outcome()
			if known != (tt.want != origin.Outcome{}) {
				t.Errorf("known: %v", known)
			}
			if hasTime := !got.At.IsZero(); hasTime != (tt.want.Rcode != 0) || hasTime && got.At.Before(began) {
				t.Errorf("at %v", got.At)
			}
			if got.At = (time.Time{}); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// Chains find the exchange by its key.
func TestExchangeInContext(t *testing.T) {
	c, _ := newChannel(t)
	x := asked(t, c, 1)
	ctx := &exchangeContext{c.intake.server.Load().Context, x}
	if got, ok := origin.ExchangeFromContext(ctx); !ok || got != origin.Exchange(x) || got.Arrived() != x.Arrived() {
		t.Errorf("%v, %v", got, ok)
	}
	if _, ok := origin.ExchangeFromContext(t.Context()); ok {
		t.Error("a context without an exchange has one")
	}
}
