// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
)

type nowhere struct{ askerWriter }

func (w *nowhere) WriteMsg(m *dns.Msg) error { w.msg = m; return nil }

func BenchmarkCached(b *testing.B) {
	for _, tt := range []struct{ name, metadata, label string }{
		{"public", "", ""},
		{"public/metadata", "metadata\n log a.example {/ofpunt/network}\n", ""},
		{"network", "metadata\n log a.example {/ofpunt/network}\n", "ofpunt/network"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			rig := startCache(b, ". {\n $OFPUNT\n $CLOSE\n "+tt.metadata+" cache\n}\n")
			var asked atomic.Int64
			answer := upstreamAnswer(&asked)
			rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				if f := metadata.ValueFunc(ctx, tt.label); f != nil {
					f()
				}
				return answer(ctx, w, r)
			}
			r := new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA)
			for range 3 {
				rig.ask(red1, r)
			}
			asked.Store(0)
			w := &nowhere{askerWriter{asker: red1}}
			ctx := context.WithValue(origin.NewContext(context.Background(), red1.origin), dnsserver.Key{}, rig.dns)
			b.ReportAllocs()
			for b.Loop() {
				rig.dns.ServeDNS(ctx, w, r)
			}
			if asked.Load() != 0 || short(w.msg) != "NOERROR 192.0.2.1" {
				b.Errorf("%v; asked %d times", w.msg, asked.Load())
			}
		})
	}
}

// BenchmarkCacheMemory fills a cache of the default size with names for all, or with answers per network.
func BenchmarkCacheMemory(b *testing.B) {
	const networks, names = 1000, 40
	for _, tt := range []struct{ name, label string }{{"public", ""}, {"networks", "ofpunt/network"}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				heap := func() uint64 {
					runtime.GC()
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					return m.HeapAlloc
				}
				rig := startCache(b, ". {\n $OFPUNT\n $CLOSE\n metadata\n log a.example {/ofpunt/network}\n cache\n}\n")
				before := heap() // the previous server is gone
				answer := upstreamAnswer(new(atomic.Int64))
				rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
					if f := metadata.ValueFunc(ctx, tt.label); f != nil {
						f()
					}
					return answer(ctx, w, r)
				}
				for network := range networks {
					who := guest(0, 1, "10.0.0.5")
					who.origin.Network = origin.Network{14: byte(network >> 8), 15: byte(network)}
					for n := range names {
						qname := fmt.Sprintf("name-%d.example.org.", n)
						if tt.label == "" {
							qname = fmt.Sprintf("name-%d-%d.example.org.", network, n)
						}
						rig.lookup(who, qname, dns.TypeA)
					}
				}
				b.ReportMetric(float64(heap()-before)/1e6, "MB")
				b.ReportMetric(testkit.Sum(b, "coredns_cache_entries"), "entries")
				runtime.KeepAlive(rig)
			}
		})
	}
}
