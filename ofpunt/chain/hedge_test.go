// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
)

// What a hedgedServer does.
const (
	answers = iota
	isSilent
	deniesNames
	fails
)

// hedgedServer is a server that counts the queries that are no health checks. The addresses in its answers end in
// its number.
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

// hedgeRig starts a block with a property hedge and forwards, in which $1 and $2 are servers.
func hedgeRig(t *testing.T, hedge, readTimeout string, first, second *hedgedServer, forwards ...string) *cacheRig {
	text := ". {\n $OFPUNT\n " + hedge + "\n $CLOSE\n metadata\n"
	for _, f := range forwards {
		text += " forward " + f + " {\n policy sequential\n max_connect_attempts 2\n read_timeout " + readTimeout + "\n }\n"
	}
	return startCache(t, strings.NewReplacer("$1", first.Addr, "$2", second.Addr).Replace(text)+"}\n")
}

// atSocket asks without an exchange.
var atSocket = asker{addr: "192.0.2.99", port: 40000}

func TestHedge(t *testing.T) {
	const soon, late = "hedge 20ms", "hedge 2s"
	both := []string{". $1 $2"}
	for _, tt := range []struct {
		name, hedge   string
		forwards      []string
		first, second int // what they do
		want          string
		asked         int64 // times, the second
	}{
		{"the first answers in time", late, both, answers, answers, "NOERROR 192.0.2.1", 0},
		{"the first is silent", soon, both, isSilent, answers, "NOERROR 192.0.2.2", 1},
		{"the second denies the name", soon, both, isSilent, deniesNames, "NXDOMAIN", 1},
		// *forward* asks both, and takes the failure for the answer.
		{"the second fails", soon, both, isSilent, fails, "SERVFAIL", 2},
		{"both are silent", soon, both, isSilent, isSilent, "SERVFAIL", 2},
		{"without the property", "", both, isSilent, answers, "NOERROR 192.0.2.2", 1},
		{"one server", soon, []string{". $1"}, isSilent, answers, "SERVFAIL", 0},
		{"behind another forward", soon, []string{"other. 192.0.2.1", ". $1 $2"}, isSilent, answers, "NOERROR 192.0.2.2", 1},
		{"not the last forward", soon, []string{"test. $1 $2", ". 192.0.2.1 192.0.2.2"}, isSilent, fails, "SERVFAIL", 1},
		{"a server of two forwards", soon, []string{"test. $1", ". $1 $2"}, isSilent, answers, "SERVFAIL", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := newHedgedServer(t, 1, tt.first), newHedgedServer(t, 2, tt.second)
			rig := hedgeRig(t, tt.hedge, "400ms", first, second, tt.forwards...)
			if got := rig.lookup(atSocket, "a.test.", dns.TypeA); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := second.asked.Load(); got != tt.asked {
				t.Errorf("the second was asked %d times, want %d", got, tt.asked)
			}
			if first.asked.Load() == 0 {
				t.Error("the first was not asked")
			}
		})
	}
}

// Whoever looks on, and a label, have the server that has answered, whatever *forward* does later.
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

// While the first server is silent, queries do not wait for the read_timeout of *forward*.
func TestHedgeUnderLoad(t *testing.T) {
	const queries, most = 100, 1500 * time.Millisecond
	late := func(hedge string) (n int64) {
		rig := hedgeRig(t, hedge, "3s", newHedgedServer(t, 1, isSilent), newHedgedServer(t, 2, answers), ". $1 $2")
		var waited atomic.Int64
		var all sync.WaitGroup
		for range queries {
			all.Go(func() {
				begun := time.Now()
				if got := rig.lookup(atSocket, "a.test.", dns.TypeA); got != "NOERROR 192.0.2.2" {
					t.Errorf("%s", got)
				}
				if time.Since(begun) > most {
					waited.Add(1)
				}
			})
		}
		all.Wait()
		return waited.Load()
	}
	if with, without := late("hedge 20ms"), late(""); without != queries || with > queries/2 {
		t.Errorf("of %d queries waited %d with hedge, and %d without it", queries, with, without)
	}
}

// With too many queries at *forward* there is no second try for more of them.
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
	// It ends at *forward* after the guest has its answer.
	ask(0)
	testkit.Eventually(t, "the first tries have ended", func() bool { return h.open.Load() == 0 })
}

// A panic behind *forward* is of the query, as without the property.
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
