// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"testing"

	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// BenchmarkServeDNS answers a name of the asker's network.
func BenchmarkServeDNS(b *testing.B) {
	h := open(b, " domain example.org\n fallthrough")
	ctx := origin.NewContext(b.Context(), &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1"})
	w, r := &test.ResponseWriter{}, new(dns.Msg).SetQuestion("vm1.example.org.", dns.TypeA)
	b.ReportAllocs()
	for b.Loop() {
		if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
			b.Fatal(code, err)
		}
	}
}
