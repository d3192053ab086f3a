// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// watching has somebody watch the queries of an intake. next returns the lines of those that have been
// dealt with since the last call.
func watching(t *testing.T, in *Intake) (next func() []*api.WatchLine) {
	t.Helper()
	in.bridge.Watch = new(watch.Feed)
	lines, err := watch.NewLines(in.bridge.Watch, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lines.Close)
	return func() (all []*api.WatchLine) {
		due, _ := lines.Next(time.Now())
		for _, line := range due {
			if l := line.(*api.WatchLine); l.Event == api.EventQuery {
				all = append(all, l)
			}
		}
		return all
	}
}

// Whatever becomes of a query is told once, with what is known of it.
func TestPublished(t *testing.T) {
	answers := func(rcode int) chain {
		return func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
			x, _ := FromContext(ctx)
			x.SetBlock(&Block{Watched: watch.Block{Name: "block"}})
			origin.SetUpstream(ctx, netip.MustParseAddrPort("192.0.2.53:53"))
			m := new(dns.Msg).SetRcode(r, rcode)
			if rcode > 0xf {
				m.SetEdns0(1232, false)
			}
			r.Question[0].Name = "rewritten."
			_ = w.WriteMsg(m)
			_ = w.WriteMsg(m) // there is one answer
		}
	}
	resumes := chain(func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) {
		x, _ := FromContext(ctx)
		_ = x.Resume()
	})
	query := punttest.QueryFrame()
	change := func(f func(frame []byte)) []byte {
		frame := slices.Clone(query)
		f(frame)
		return frame
	}
	const taken = "port-1 udp 10.0.0.11:5000 169.254.169.254:53 block a. A"
	const unmatched = "port-1 udp 10.0.0.11:5000 169.254.169.254:53  a. A"
	for _, tt := range []struct {
		name      string
		frame     []byte
		resumable bool
		// unknown is set if nobody has the OpenFlow port.
		unknown bool
		chain   chain
		config  func(*Config)
		want    string
	}{
		{name: "an answer", frame: query, chain: answers(dns.RcodeSuccess), want: taken + " NOERROR answered chain 192.0.2.53:53"},
		{name: "an error", frame: query, chain: answers(dns.RcodeNameError), want: taken + " NXDOMAIN answered chain 192.0.2.53:53"},
		{name: "an extended rcode", frame: query, chain: answers(dns.RcodeBadVers), want: taken + " BADVERS answered chain 192.0.2.53:53"},
		{name: "from memory", frame: query, chain: answers(dns.RcodeSuccess), config: func(c *Config) { c.FromMemory = true }, want: taken + " NOERROR answered chain 192.0.2.53:53"},
		{name: "no block", frame: query, chain: func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused))
		}, want: unmatched + " REFUSED refused no-block "},
		{name: "dropped by a plugin", frame: query, chain: func(context.Context, dns.ResponseWriter, *dns.Msg) {}, want: unmatched + " DROPPED dropped unanswered "},
		{name: "a panic", frame: query, chain: func(context.Context, dns.ResponseWriter, *dns.Msg) { panic("of a plugin") }, want: unmatched + " DROPPED dropped panic "},
		{name: "resumed", frame: query, resumable: true, chain: resumes, want: unmatched + " RESUMED resumed no-block "},
		{name: "overload", frame: query, config: func(c *Config) { c.Concurrent = 0 }, want: unmatched + " SERVFAIL refused overload "},
		{name: "overload, dropped", frame: query, config: func(c *Config) { c.Concurrent, c.DropOverload = 0, true }, want: unmatched + " DROPPED dropped overload "},
		{name: "overload in hijack mode", frame: query, resumable: true, config: func(c *Config) { c.Concurrent, c.Guests = 0, hijacking() }, want: unmatched + " RESUMED resumed overload "},
		{name: "too many of a guest", frame: query, config: func(c *Config) { c.ConcurrentGuest = 0 }, want: unmatched + " SERVFAIL refused port-limit "},
		{name: "a transfer", frame: change(func(f []byte) { binary.BigEndian.PutUint16(f[len(f)-4:], dns.TypeAXFR) }), want: "port-1 udp 10.0.0.11:5000 169.254.169.254:53  a. AXFR REFUSED refused transfer "},
		{name: "no query", frame: change(func(f []byte) { f[len(f)-len(punttest.Query)+2] |= 0x80 }), want: unmatched + " DROPPED dropped response "},
		{name: "malformed", frame: change(func(f []byte) { f[len(f)-7] = 0xc0 }), want: "port-1 udp 10.0.0.11:5000 169.254.169.254:53    FORMERR refused malformed "},
		{name: "not to a resolver", frame: query, config: func(c *Config) { c.Guests = guests.NewRules(guests.Config{Placement: placement.Table, DHCP: true}) }, want: unmatched + " DROPPED dropped address "},
		{name: "of a guest that is not known", frame: query, unknown: true, want: " udp 10.0.0.11:5000 169.254.169.254:53  a. A SERVFAIL refused origin "},
		{name: "no whole frame", frame: query[:20], want: " udp      DROPPED dropped truncated "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := newChannel(t)
			next := watching(t, c.intake)
			if !tt.unknown {
				guestIs(c.intake, "1")
			}
			s := serve(c.intake, tt.chain, tt.config)
			if tt.resumable {
				send(t, peer, punttest.ResumablePunt(tt.frame))
			} else {
				send(t, peer, punttest.Punt(tt.frame))
			}
			var got []*api.WatchLine
			testkit.Eventually(t, "told", func() bool { got = append(got, next()...); return len(got) > 0 })
			testkit.Eventually(t, "out of flight", func() bool { return s.InFlight() == 0 })
			if got = append(got, next()...); len(got) != 1 {
				t.Fatalf("%d lines", len(got))
			}
			l := got[0]
			if text := fmt.Sprint(l.Port, " ", l.Transport, " ", l.Client, " ", l.Server, " ", l.Block, " ", l.Name, " ", l.Type, " ", l.Rcode, " ", l.Result, " ", l.Reason, " ", l.Upstream); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			if l.Bridge != bridgeName || l.Seconds <= 0 || time.Since(l.Time) > time.Hour {
				t.Errorf("%+v", l)
			}
		})
	}
}

// A query over TCP is told as one, and one whose guest has left its port as dropped, behind the deadline too.
func TestPublishedTCP(t *testing.T) {
	for _, tt := range []struct {
		name           string
		moves, expires bool
		want           string
	}{
		{"answered", false, false, "tcp a. NOERROR answered chain"},
		{"the guest has left", true, false, "tcp a. DROPPED dropped port"},
		{"the deadline", false, true, "tcp a. SERVFAIL answered deadline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := tcpChannel(t)
			next := watching(t, c.intake)
			c.intake.done.Go(c.intake.accept)
			inChain, release := make(chan struct{}), make(chan struct{})
			s := serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) {
				close(inChain)
				<-release
				reply(ctx, w, r)
			}, nil)
			message := append(binary.BigEndian.AppendUint16(nil, uint16(len(punttest.Query))), punttest.Query...)
			send(t, peer, punttest.Punt(punttest.Segment(t, 8, begin(t, peer), punttest.ACK, message)))
			<-inChain
			if tt.moves {
				guestIs(c.intake, "2")
			}
			var got []*api.WatchLine
			told := func() bool { got = append(got, next()...); return len(got) > 0 }
			if tt.expires {
				c.intake.expire(time.Now().Add(2 * answerDeadline))
				testkit.Eventually(t, "told at the deadline", told)
			}
			close(release)
			testkit.Eventually(t, "told", told)
			testkit.Eventually(t, "out of flight", func() bool { return s.InFlight() == 0 })
			if got = append(got, next()...); len(got) != 1 {
				t.Fatalf("%d lines", len(got))
			}
			if text := fmt.Sprint(got[0].Transport, " ", got[0].Name, " ", got[0].Rcode, " ", got[0].Result, " ", got[0].Reason); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

// What an operator asks in the place of a guest is no query of the guest.
func TestAskIsNotPublished(t *testing.T) {
	c, _ := newChannel(t)
	next := watching(t, c.intake)
	guestIs(c.intake, "1")
	s := serve(c.intake, reply, nil)
	v := c.intake.Ask(s, &TestQuery{In: openflow.PacketIn{InPort: 5, Data: punttest.QueryFrame()}, Context: t.Context(), Answered: func() {}})
	<-v.Done
	if got := next(); v.Answer == nil || len(got) > 0 {
		t.Errorf("%v, told %v", v, got)
	}
}

// While nobody watches, no upstream is kept.
func TestUpstreamUnwatched(t *testing.T) {
	c, _ := newChannel(t)
	c.intake.bridge.Watch = new(watch.Feed)
	x := asked(t, c, 1)
	if n := testing.AllocsPerRun(10, func() { x.SetUpstream(netip.MustParseAddrPort("192.0.2.53:53")) }); n > 0 || x.upstream.Load() != nil {
		t.Errorf("%v allocations, kept %v", n, x.upstream.Load())
	}
}

// An event of a long message does not keep that.
func TestKeptQuestion(t *testing.T) {
	short, err := new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		message []byte
		shared  bool
	}{{"short", short, true}, {"long", append(slices.Clone(short), make([]byte, 60_000)...), false}} {
		got := keptQuestion(tt.message)
		if !slices.Equal(got, short[headerLen:]) || (&got[0] == &tt.message[headerLen]) != tt.shared {
			t.Errorf("%s: %q with room for %d bytes", tt.name, got, cap(got))
		}
	}
}
