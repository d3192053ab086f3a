// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"
)

// When cache asks by itself, before or after an answer expires, plugins below see the labels of the guest whose query
// is the cause. Each guest keeps its own answers.
func TestCacheAsksAgain(t *testing.T) {
	for _, tt := range []struct{ name, property string }{
		{"prefetch", "prefetch 1 10m 90%"},
		{"stale", "serve_stale 1h"},
		{"verify", "serve_stale 1h verify"},
		{"verify with a timeout", "serve_stale 1h verify 1s"},
		{"prefetch and stale", "prefetch 1 10m 90%\n serve_stale 1h immediate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Outside of the bubble: goroutines of the bridge wait for the kernel.
			rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n metadata\n log . {/ofpunt/switch}\n cache {\n "+tt.property+"\n }\n}\n")
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
					n := asked.Add(1)
					text := "public"
					if r.Question[0].Name != "public.test." {
						text = metadata.ValueFunc(ctx, "ofpunt/switch")()
					}
					metadata.SetValueFunc(ctx, "upstream/name", func() string { return "u" })
					m := new(dns.Msg).SetReply(r)
					m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 10}, Txt: []string{text, fmt.Sprint(n)}}}
					return 0, w.WriteMsg(m)
				}
				ask := func(who asker, qname string) (n string) {
					t.Helper()
					got := rig.lookup(who, qname, dns.TypeTXT)
					want := "NOERROR public "
					if qname != "public.test." {
						want = "NOERROR " + who.origin.Switch + " "
					}
					n, ok := strings.CutPrefix(got, want)
					if !ok {
						t.Errorf("%s: %q, want %q", qname, got, want)
					}
					return n
				}
				askers := []asker{red1, blue1}
				for range 2 { // learned, stored
					for _, who := range askers {
						ask(who, "x.test.")
						ask(who, "public.test.")
					}
				}
				before := asked.Load()
				for round := range 5 {
					first := map[string]string{}
					for _, who := range askers {
						for _, qname := range []string{"x.test.", "public.test."} {
							first[who.origin.Switch+qname] = ask(who, qname)
						}
					}
					synctest.Wait()
					time.Sleep(map[bool]time.Duration{true: 5 * time.Second, false: 12 * time.Second}[tt.name == "prefetch"])
					for _, who := range askers {
						ask(who, "x.test.")
						ask(who, "public.test.")
					}
					synctest.Wait()
					for _, who := range askers {
						for _, qname := range []string{"x.test.", "public.test."} {
							if n := ask(who, qname); n == first[who.origin.Switch+qname] {
								t.Errorf("round %d: %s of %s is not fresh: %s", round, qname, who.origin.Switch, n)
							}
						}
					}
					synctest.Wait()
				}
				if n := asked.Load() - before; n < 15 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}
