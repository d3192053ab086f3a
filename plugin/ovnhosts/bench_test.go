// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/loadbalance" // for below
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// BenchmarkServeDNS answers a name of the asker's network.
func BenchmarkServeDNS(b *testing.B) {
	for _, bm := range []struct {
		name, properties, qname string
		above                   plugin.Plugin
	}{
		{"one address", "", "vm1.example.org.", nil},
		{"two addresses", "", "db.internal.", nil},
		{"two addresses, shuffle", "\n shuffle on", "db.internal.", nil},
		{"two addresses, below loadbalance", "", "db.internal.", below(b, "loadbalance")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			h := open(b, " domain example.org\n fallthrough"+bm.properties)
			var top plugin.Handler = h
			if bm.above != nil {
				top = bm.above(h)
			}
			ctx := origin.NewContext(b.Context(), &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1"})
			w, r := &test.ResponseWriter{}, new(dns.Msg).SetQuestion(bm.qname, dns.TypeA)
			b.ReportAllocs()
			for b.Loop() {
				if code, err := top.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
					b.Fatal(code, err)
				}
			}
		})
	}
}

// below returns what puts a plugin of CoreDNS above a handler.
func below(b *testing.B, directive string) plugin.Plugin {
	b.Helper()
	setup, err := caddy.DirectiveAction("dns", directive)
	if err != nil {
		b.Fatal(err)
	}
	c := caddy.NewTestController("dns", directive)
	if err := setup(c); err != nil {
		b.Fatal(err)
	}
	return dnsserver.GetConfig(c).Plugin[0]
}
