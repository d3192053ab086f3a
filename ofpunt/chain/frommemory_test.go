// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punt"
)

type stub string

func (s stub) Name() string { return string(s) }
func (s stub) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
	return dns.RcodeServerFailure, nil
}

type hosts struct {
	stub
	zone string
}

func (h hosts) Covers(zone string) bool { return plugin.Zones{h.zone}.Matches(zone) != "" }

func TestAnswersFromMemory(t *testing.T) {
	all := hosts{"ovnhosts", "."}
	type block = []plugin.Handler
	tests := []struct {
		name  string
		zone  string
		chain block
		want  bool // of answersFromMemory
		cache bool // of answersFromCache
	}{
		{"ovnhosts above what waits", ".", block{stub("errors"), stub("log"), all, stub("forward")}, true, false},
		{"the plugins of Corefile.example", ".", block{stub("ofpunt"), stub("metadata"), stub("ready"), stub("health"), stub("prometheus"), stub("errors"), stub("loadbalance"), all, stub("cache"), stub("private"), stub("forward")}, true, true},
		{"audit above it", ".", block{stub("dnstap"), stub("audit"), all, stub("forward")}, true, false},
		{"ovnhosts alone", ".", block{all}, true, false},
		{"no ovnhosts", ".", block{stub("errors"), stub("forward")}, false, false},
		{"nothing", ".", block{}, false, false},
		{"a plugin that changes the question above it", ".", block{stub("rewrite"), all}, false, false},
		{"a plugin that nobody knows above it", ".", block{stub("unknown"), all}, false, false},
		{"ovnhosts for a part of the block's zone", ".", block{hosts{"ovnhosts", "internal."}, stub("forward")}, false, false},
		{"ovnhosts for more than the block's zone", "red.internal.", block{hosts{"ovnhosts", "internal."}, stub("forward")}, true, false},
		{"cache without ovnhosts", ".", block{stub("errors"), stub("cache"), stub("forward")}, false, true},
		{"a plugin that changes the question above them", ".", block{stub("rewrite"), all, stub("cache")}, false, true},
		{"egress and rpz between them", ".", block{all, stub("rpz"), stub("egress"), stub("cache")}, true, true},
		{"a plugin that may ask elsewhere between them", ".", block{all, stub("ovnforward"), stub("cache")}, true, false},
		{"a plugin that nobody knows above cache", ".", block{stub("unknown"), stub("cache")}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &dnsserver.Config{Zone: tt.zone}
			for _, h := range tt.chain {
				c.Plugin = append(c.Plugin, func(plugin.Handler) plugin.Handler { return h })
			}
			if _, err := dnsserver.NewServer("test", []*dnsserver.Config{c}); err != nil {
				t.Fatal(err)
			}
			if got := answersFromMemory(c); got != tt.want {
				t.Errorf("from memory: got %v", got)
			}
			if got := answersFromCache(c); got != tt.cache {
				t.Errorf("from cache: got %v", got)
			}
		})
	}
}

// A query leaves the reader before a plugin below *cache* runs, and at a lookup.
func TestChainLeavesReader(t *testing.T) {
	rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n cache\n}\n")
	var asked atomic.Int64
	var x *punt.Exchange
	answer := upstreamAnswer(&asked)
	rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		if !x.Left() {
			t.Error("the reader runs the plugin below cache")
		}
		return answer(ctx, w, r)
	}
	ask := func(lookup bool) {
		x = &punt.Exchange{}
		r := x.Request()
		r.SetQuestion("www.example.org.", dns.TypeA)
		if lookup {
			r = r.Copy()
		}
		rig.dns.ServeDNS(puntContext(rig.dns, x, red1.origin), &askerWriter{asker: red1}, r)
	}
	for _, tt := range []struct {
		name   string
		lookup bool
		want   bool
	}{
		{"an answer of the plugin below", false, true},
		{"an answer from cache", false, false},
		{"a lookup, from cache", true, true},
	} {
		if ask(tt.lookup); x.Left() != tt.want {
			t.Errorf("%s: left the reader: %v", tt.name, x.Left())
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}
