// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// Behaviour of a hedgedServer.
const (
	answers = iota
	isSilent
	deniesNames
	fails
)

// Answers of a hedgedServer end in its number. Health checks are not counted.
type hedgedServer struct {
	Addr  string
	asked atomic.Int64
}

func newHedgedServer(t *testing.T, number byte, does int) *hedgedServer {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &hedgedServer{Addr: pc.LocalAddr().String()}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		switch name := r.Question[0].Name; {
		case name == ".":
			_ = w.WriteMsg(m)
			return
		case does == deniesNames:
			m.Rcode = dns.RcodeNameError
		case does == fails:
			m.Rcode = dns.RcodeServerFailure
		default:
			m.Answer = []dns.RR{a(name, number)}
		}
		s.asked.Add(1)
		if does != isSilent {
			_ = w.WriteMsg(m)
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = pc.Close()
		<-ended
	})
	return s
}

// hedgeRig replaces $1 and $2 in forwards by the servers.
func hedgeRig(t *testing.T, hedge, readTimeout string, first, second *hedgedServer, forwards ...string) *cacheRig {
	text := ". {\n $OFPUNT\n " + hedge + "\n $CLOSE\n metadata\n"
	for _, f := range forwards {
		text += " forward " + f + " {\n policy sequential\n max_connect_attempts 2\n read_timeout " + readTimeout + "\n }\n"
	}
	return startCache(t, strings.NewReplacer("$1", first.Addr, "$2", second.Addr).Replace(text)+"}\n")
}

var atSocket = asker{addr: "192.0.2.99", port: 40000}

func hedgedQueries(t *testing.T) map[string]float64 {
	all := map[string]float64{}
	for _, answer := range []string{"first", "second", "none"} {
		all[answer] = testkit.Value(t, metric.HedgedQueries.WithLabelValues(answer))
	}
	return all
}

func TestHedge(t *testing.T) {
	const soon, late = "hedge 20ms", "hedge 2s"
	both := []string{". $1 $2"}
	for _, tt := range []struct {
		name, hedge   string
		forwards      []string
		first, second int // behaviour
		want          string
		asked         int64  // queries at the second
		counted       string // label in the metric, empty for none
	}{
		{"the first answers in time", late, both, answers, answers, "NOERROR 192.0.2.1", 0, ""},
		{"the first is silent", soon, both, isSilent, answers, "NOERROR 192.0.2.2", 1, "second"},
		{"the second denies the name", soon, both, isSilent, deniesNames, "NXDOMAIN", 1, "second"},
		// *forward* asks both, and accepts the failure.
		{"the second fails", soon, both, isSilent, fails, "SERVFAIL", 2, "first"},
		{"both are silent", soon, both, isSilent, isSilent, "SERVFAIL", 2, "none"},
		{"without the property", "", both, isSilent, answers, "NOERROR 192.0.2.2", 1, ""},
		{"one server", soon, []string{". $1"}, isSilent, answers, "SERVFAIL", 0, ""},
		{"behind another forward", soon, []string{"other. 192.0.2.1", ". $1 $2"}, isSilent, answers, "NOERROR 192.0.2.2", 1, "second"},
		{"not the last forward", soon, []string{"test. $1 $2", ". 192.0.2.1 192.0.2.2"}, isSilent, fails, "SERVFAIL", 1, ""},
		{"a server of two forwards", soon, []string{"test. $1", ". $1 $2"}, isSilent, answers, "SERVFAIL", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := newHedgedServer(t, 1, tt.first), newHedgedServer(t, 2, tt.second)
			rig := hedgeRig(t, tt.hedge, "400ms", first, second, tt.forwards...)
			before := hedgedQueries(t)
			if got := rig.lookup(atSocket, "a.test.", dns.TypeA); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := second.asked.Load(); got != tt.asked {
				t.Errorf("the second was asked %d times, want %d", got, tt.asked)
			}
			after := hedgedQueries(t)
			for answer := range after {
				if grown := after[answer] > before[answer]; grown != (answer == tt.counted) {
					t.Errorf("%s: counted: %v, want %q alone", answer, grown, tt.counted)
				}
			}
			// The second may answer before the first has read its query.
			testkit.Eventually(t, "a query at the first", func() bool { return first.asked.Load() > 0 })
		})
	}
}

// Watcher and metadata have the server that answered.
func TestHedgeShowsServer(t *testing.T) {
	for _, tt := range []struct {
		name, hedge string
		first       int
		second      bool // has answered
	}{
		{"the first", "hedge 2s", answers, false},
		{"the second", "hedge 20ms", isSilent, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := newHedgedServer(t, 1, tt.first), newHedgedServer(t, 2, answers)
			rig := hedgeRig(t, tt.hedge, "400ms", first, second, ". $1 $2")
			want := first.Addr
			if tt.second {
				want = second.Addr
			}
			var told toldUpstreams
			ctx := metadata.ContextWithMetadata(context.WithValue(t.Context(), origin.ExchangeKey{}, &told))
			g := rig.configs[0].Handler("forward").(*loopGuard)
			w := &askerWriter{asker: atSocket}
			if _, err := g.ServeDNS(ctx, w, new(dns.Msg).SetQuestion("a.test.", dns.TypeA)); err != nil || w.msg == nil {
				t.Fatal(err, w.msg)
			}
			if f := metadata.ValueFunc(ctx, "forward/upstream"); f == nil || f() != want {
				t.Errorf("the label is %v, want %s", f, want)
			}
			if all := told.told(); len(all) == 0 || all[len(all)-1] != netip.MustParseAddrPort(want) {
				t.Errorf("the exchange has %v, want %s", all, want)
			}
		})
	}
}

func TestHedgeExplained(t *testing.T) {
	for _, hedge := range []string{"", "hedge 21ms"} {
		first, second := newHedgedServer(t, 1, answers), newHedgedServer(t, 2, answers)
		rig := hedgeRig(t, hedge, "400ms", first, second, ". $1 $2")
		e := explain.New()
		defer e.End()
		w := &askerWriter{asker: atSocket}
		ctx := e.Context(t.Context())
		if _, err := rig.configs[0].Handler("forward").ServeDNS(ctx, w, new(dns.Msg).SetQuestion("a.test.", dns.TypeA)); err != nil {
			t.Fatal(err)
		}
		if notes := fmt.Sprint(e.Report()); strings.Contains(notes, "21ms") != (hedge != "") {
			t.Errorf("with %q: %s", hedge, notes)
		}
	}
}

// No query waits for the read_timeout, even if the hedge is due before *forward* has asked. On a busy machine a few
// may.
func TestHedgeUnderLoad(t *testing.T) {
	const queries = 100
	rig := hedgeRig(t, "hedge 20ms", "3s", newHedgedServer(t, 1, isSilent), newHedgedServer(t, 2, answers), ". $1 $2")
	h := rig.configs[0].Handler("forward").(*loopGuard).hedge
	h.after = time.Nanosecond
	before := hedgedQueries(t)
	var all sync.WaitGroup
	for range queries {
		all.Go(func() {
			if got := rig.lookup(atSocket, "a.test.", dns.TypeA); got != "NOERROR 192.0.2.2" {
				t.Errorf("%s", got)
			}
		})
	}
	all.Wait()
	if got := hedgedQueries(t)["second"] - before["second"]; got < queries/2 {
		t.Errorf("of %d queries %v had the answer of the second server first", queries, got)
	}
	testkit.Eventually(t, "the first tries have ended", func() bool { return h.open.Load() == 0 })
}

func TestHedgeBounded(t *testing.T) {
	second := newHedgedServer(t, 2, answers)
	rig := hedgeRig(t, "hedge 20ms", "200ms", newHedgedServer(t, 1, isSilent), second, ". $1 $2")
	h := rig.configs[0].Handler("forward").(*loopGuard).hedge
	ask := func(open int64) time.Duration {
		h.open.Add(open)
		defer h.open.Add(-open)
		begun := time.Now()
		if _, err := rig.configs[0].Handler("forward").ServeDNS(t.Context(), &askerWriter{asker: atSocket}, new(dns.Msg).SetQuestion("a.test.", dns.TypeA)); err != nil {
			t.Error(err)
		}
		return time.Since(begun)
	}
	if took := ask(maxOpen); took < 200*time.Millisecond {
		t.Errorf("a second try was made, after %s", took)
	}
	// *forward* ends after the answer.
	ask(0)
	testkit.Eventually(t, "the first tries have ended", func() bool { return h.open.Load() == 0 })
}

// A panic hits only the query, as without hedge.
func TestHedgePanics(t *testing.T) {
	tries := make(chan try, 2)
	start(tries, func() try { panic("mistake") })
	got := better(tries)
	defer func() {
		if p := recover(); p != "mistake" {
			t.Errorf("%v", p)
		}
	}()
	_, _ = got.finish(t.Context(), nil)
}
