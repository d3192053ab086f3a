// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// When cache asks by itself, a template reads the addresses of the guest whose query is the cause.
func TestCacheAsksAgainByAddress(t *testing.T) {
	for _, tt := range []struct{ name, property string }{
		{"prefetch", "prefetch 1 10m 90%"},
		{"stale", "serve_stale 1h"},
		{"verify", "serve_stale 1h verify"},
		{"verify with a timeout", "serve_stale 1h verify 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n metadata\n template IN TXT {\n var s server_ip()\n var p proto()\n answer \"{{ .Name }} 10 IN TXT {{ .Remote }} {{ .Var.s }} {{ .Var.p }}\"\n }\n cache {\n "+tt.property+"\n }\n}\n")
			synctest.Test(t, func(t *testing.T) {
				tcp := red1
				tcp.tcp = true
				for round := range 9 {
					for _, who := range []asker{red1, red2, tcp, socketAsker} {
						proto := "udp"
						if who.tcp {
							proto = "tcp"
						}
						if got, want := rig.lookup(who, "x.test.", dns.TypeTXT), "NOERROR "+who.addr+" 169.254.169.254 "+proto; got != want {
							t.Errorf("round %d: %q, want %q", round, got, want)
						}
					}
					synctest.Wait()
					if round%3 == 1 { // then two without a pause
						time.Sleep(map[bool]time.Duration{true: 5 * time.Second, false: 12 * time.Second}[tt.name == "prefetch"])
					}
				}
			})
		})
	}
}

// After an expired answer, the query goes on as a lookup: without a packet, but with the guest's addresses.
func TestCacheVerifiesAside(t *testing.T) {
	rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n metadata\n cache {\n serve_stale 1h verify 1s\n }\n}\n")
	synctest.Test(t, func(t *testing.T) {
		packet := &resumer{}
		o := *red1.origin
		o.Resumer = packet
		w := &askerWriter{asker: red1}
		var slow, done atomic.Bool
		rig.upstream = func(ctx context.Context, uw dns.ResponseWriter, r *dns.Msg) (int, error) {
			of, ok := origin.FromContext(ctx)
			slow := slow.Load()
			if !ok || of.Lookup != slow || (of.Resumer == nil) != slow || (ctx.Value(punt.Key{}) == nil) != slow {
				t.Errorf("slow: %v, the origin is %+v", slow, of)
			}
			if slow {
				time.Sleep(2 * time.Second) // the guest has its answer
				if got := uw.RemoteAddr().String(); got != "10.0.0.5:40000" {
					t.Errorf("the address of the guest is %s", got)
				}
				if got := uw.LocalAddr().String(); got != "169.254.169.254:53" {
					t.Errorf("the address of the server is %s", got)
				}
				if origin.Resume(ctx, uw, r); packet.times != 0 {
					t.Error("the packet is resumed")
				}
				done.Store(true)
				return 0, nil
			}
			m := new(dns.Msg).SetReply(r)
			m.Answer = []dns.RR{a(r.Question[0].Name, 1)}
			m.Answer[0].Header().Ttl = 10
			return 0, uw.WriteMsg(m)
		}
		ask := func() string {
			w.msg = nil
			x := &punt.Exchange{}
			*x.Request() = *new(dns.Msg).SetQuestion("x.test.", dns.TypeA)
			rig.dns.ServeDNS(puntContext(rig.dns, x, &o), w, x.Request())
			return short(w.msg)
		}
		for range 2 {
			if got := ask(); got != "NOERROR 192.0.2.1" {
				t.Error(got)
			}
			if slow.Load() {
				w.addr = "192.0.2.99" // the writer is another query's
			}
			time.Sleep(12 * time.Second)
			slow.Store(!slow.Load() && !done.Load())
		}
		time.Sleep(5 * time.Second)
		if !done.Load() {
			t.Error("nothing was verified")
		}
	})
}

// cache stops serving an expired answer after a new answer, even if it can't store that.
func TestCacheStaleIsSuperseded(t *testing.T) {
	for _, property := range []string{"serve_stale 1h", "serve_stale 1h verify", "serve_stale 1h verify 1s"} {
		t.Run(property, func(t *testing.T) {
			rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n metadata\n cache {\n "+property+"\n }\n}\n")
			synctest.Test(t, func(t *testing.T) {
				byLookup := false
				rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
					m := new(dns.Msg).SetReply(r)
					m.Answer = []dns.RR{a(r.Question[0].Name, 1)}
					if byLookup {
						tenantcache.MarkLookup(ctx)
						m.Answer = []dns.RR{a(r.Question[0].Name, 2)}
					}
					m.Answer[0].Header().Ttl = 10
					return 0, w.WriteMsg(m)
				}
				for _, change := range []bool{false, true, false, true} {
					byLookup = change
					want := map[bool]string{false: "NOERROR 192.0.2.1", true: "NOERROR 192.0.2.2"}[change]
					rig.lookup(red1, "x.test.", dns.TypeA) // may be what had expired
					synctest.Wait()
					for range 2 {
						for _, who := range []asker{red1, blue1} {
							if got := rig.lookup(who, "x.test.", dns.TypeA); got != want {
								t.Errorf("%q, want %q", got, want)
							}
						}
					}
					time.Sleep(12 * time.Second)
				}
			})
		})
	}
}
