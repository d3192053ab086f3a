// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// askKey is the context key of what a chain is to find there.
type askKey struct{}

// A query that an operator asks goes the way of a guest's, and nothing is sent or counted.
func TestAsk(t *testing.T) {
	answer := chain(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: []byte{192, 0, 2, 1}}}
		_ = w.WriteMsg(m)
	})
	resume := chain(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		if handled, _, _ := origin.Resume(ctx, w, r); !handled {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeServerFailure))
		}
	})
	for _, tt := range []struct {
		name           string
		chain          chain
		inPort         uint32
		server         string
		qtype          uint16
		resumable, tcp bool
		rcode          int // -1 for no answer
		result         string
		reason         string
		known, isAsks  bool
	}{
		{"answer", answer, 5, "169.254.169.254:53", dns.TypeA, false, false, 0, metric.Answered, metric.ReasonChain, true, true},
		{"answer over TCP", answer, 5, "169.254.169.254:53", dns.TypeA, false, true, 0, metric.Answered, metric.ReasonChain, true, true},
		{"resumed", resume, 5, "169.254.169.254:53", dns.TypeA, true, false, -1, metric.Resumed, metric.ReasonChain, true, true},
		{"not resumable", resume, 5, "169.254.169.254:53", dns.TypeA, false, false, dns.RcodeServerFailure, metric.Answered, metric.ReasonChain, true, true},
		{"nothing", func(context.Context, dns.ResponseWriter, *dns.Msg) {}, 5, "169.254.169.254:53", dns.TypeA, false, false, -1, metric.Dropped, metric.ReasonUnanswered, true, true},
		{"a panic", func(context.Context, dns.ResponseWriter, *dns.Msg) { panic("of a plugin") }, 5, "169.254.169.254:53", dns.TypeA, false, false, -1, metric.Dropped, metric.ReasonPanic, true, true},
		{"refused before the chain", answer, 5, "169.254.169.254:53", dns.TypeAXFR, false, false, dns.RcodeRefused, metric.Refused, metric.ReasonTransfer, true, true},
		{"another server", answer, 5, "192.0.2.1:53", dns.TypeA, false, false, -1, "", "", true, false},
		{"an unknown guest", answer, 6, "169.254.169.254:53", dns.TypeA, false, false, -1, "", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newChannel(t)
			guestIs(c.intake, "1")
			var seen *origin.Origin
			s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
				seen, _ = origin.FromContext(ctx)
				if ctx.Value(askKey{}) != "given" {
					t.Error("the chain has another context")
				}
				if x, ok := FromContext(ctx); ok {
					x.SetBlock(&Block{}) // a block has taken it
				}
				tt.chain(ctx, w, r)
			}, nil)
			before := packetIns(t, tt.result, tt.reason)
			query, err := new(dns.Msg).SetQuestion("a.test.", tt.qtype).Pack()
			if err != nil {
				t.Fatal(err)
			}
			frame, err := QueryFrame(netip.MustParseAddrPort("10.0.0.1:50000"), [6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddrPort(tt.server), query)
			if err != nil {
				t.Fatal(err)
			}
			answered := 0
			v := c.intake.Ask(s, &TestQuery{
				In: openflow.PacketIn{InPort: tt.inPort, Data: frame}, Resumable: tt.resumable, TCP: tt.tcp,
				Context: context.WithValue(context.Background(), askKey{}, "given"), Answered: func() { answered++ },
			})
			<-v.Done
			rcode := -1
			if v.Answer != nil {
				rcode = v.Answer.Rcode
			}
			if rcode != tt.rcode || v.Outcome.Result != tt.result || v.Outcome.Reason != tt.reason || v.Identified != tt.known || v.IsResolver != tt.isAsks {
				t.Errorf("rcode %d, %+v", rcode, v)
			}
			if seen != nil && (seen.Port != "port-1" || seen.InPort != 5 || seen.MAC.String() != "02:00:00:00:00:01" || seen.Destination.String() != tt.server) {
				t.Errorf("%+v", seen)
			}
			if now := packetIns(t, tt.result, tt.reason); now != before || s.InFlight() != 0 {
				t.Errorf("counted %d more, %d in flight", now-before, s.InFlight())
			}
			if want := tt.rcode >= 0 || tt.result == metric.Resumed; (answered > 0) != want {
				t.Errorf("told of %d answers, want some: %v", answered, want)
			}
		})
	}
}

type egressPolicies struct{}

func (egressPolicies) Of(*origin.Origin) opening.Policy { return nil }
func (egressPolicies) HasLabel(string) bool             { return false }

// The opener of an operator's query makes a trial, whatever the plugin asks for.
func TestAskOpensNothing(t *testing.T) {
	c, _ := newChannel(t)
	guestIs(c.intake, "1")
	full := fmt.Errorf("the guest has 1: %w", opening.ErrFull)
	var asked []opening.Answer
	c.intake.bridge.Open = func(_ context.Context, _ placement.Key, a *opening.Answer) error {
		asked = append(asked, *a)
		return full
	}
	c.intake.bridge.Stands = func(placement.Opening, string, time.Duration) bool { return true } // would count as an answer
	a := opening.Answer{Name: "a.test."}
	s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
		o, _ := origin.FromContext(ctx)
		if err := o.Opener.Open(ctx, &a); !errors.Is(err, full) || o.Opener.Stands("a.test.", opening.Destination{}, 0) {
			t.Errorf("another opener: %v", err)
		}
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
	}, func(cfg *Config) { cfg.Guests.Egress = egressPolicies{} })
	v := c.intake.Ask(s, &TestQuery{In: openflow.PacketIn{InPort: 5, Data: punttest.QueryFrame()}, Context: t.Context(), Answered: func() {}})
	<-v.Done
	if len(asked) != 1 || !asked[0].Trial || a.Trial || v.Answer == nil {
		t.Errorf("opens %+v of %+v: %+v", asked, a, v)
	}
}
