// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Two tenants with the same addresses ask one block with one cache: outside names are shared,
// what is made from the asker is kept apart and cached too, and with a scope nothing is shared.
func TestCacheOfTenants(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	up := n.Upstream("www.example.org. 600 IN A 192.0.2.1", "other.example.org. 600 IN A 192.0.2.2")
	// The upstream tells what it has been told of the asker.
	const code = 0xffee
	told := n.Upstream()
	told.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		said := "nothing"
		if o := r.IsEdns0(); o != nil {
			for _, option := range o.Option {
				if local, ok := option.(*dns.EDNS0_LOCAL); ok && local.Code == code {
					said = string(local.Data)
				}
			}
		}
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 600}, Txt: []string{said}}}
		_ = w.WriteMsg(m) // a client that has gone is no failure
	}))
	const cached = `cache {
        prefetch 2 10m 10%
        serve_stale 1h verify 1s
    }`
	text := func(properties string) string {
		return pipelineCorefile(properties, "fallthrough", cached+`
    template IN TXT who.example.net {
        answer "{{ .Name }} 600 IN TXT \"{{ .Meta \"ofpunt/switch\" }} {{ .Meta \"ofpunt/port\" }}\""
    }
    template IN TXT where.example.net {
        answer "{{ .Name }} 600 IN TXT {{ .Remote }}"
    }
    forward . `+up.Addr) + `
told.example {
    ofpunt br-int
    metadata
    rewrite edns0 local set 0xffee {ofpunt/switch}
    ` + cached + `
    forward . ` + told.Addr + `
}
`
	}
	guests := []*lab.Guest{n.red, n.blue}
	ctx := within(t, 2*wait)
	hits := func(s *server) float64 { return s.metric("coredns_cache_hits_total") }

	s := serve(t, n.Lab, text(""))
	for round := range 4 {
		for _, g := range guests {
			sw := strings.TrimSuffix(g.Port, "-vm1")
			for _, resolver := range resolvers {
				addr := map[string]string{resolver4: "10.0.1.11", resolver6: "fd00:1::11"}[resolver]
				check(ctx, t, g, resolver, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
				check(ctx, t, g, resolver, "WHO.example.net.", dns.TypeTXT, `NOERROR "`+sw+" "+g.Port+`"`)
				check(ctx, t, g, resolver, "where.example.net.", dns.TypeTXT, `NOERROR "`+addr+`"`)
				check(ctx, t, g, resolver, "x.told.example.", dns.TypeTXT, `NOERROR "`+sw+`"`)
			}
		}
		if got, want := hits(s), float64((round+1)*16-1-(1+2)-2-2); got != want {
			t.Errorf("round %d: %v hits, want %v: all but one for both, one to learn and one each, one for each address, which both have, and one for each switch", round, got, want)
		}
	}
	if got := up.Count("www.example.org."); got != 1 {
		t.Errorf("the upstream was asked %d times for a name of all, want once", got)
	}
	if got := told.Count("x.told.example."); got != 2 {
		t.Errorf("the upstream that is told was asked %d times, want once for each tenant", got)
	}
	// The first answer.
	s.reaches(1, "coredns_ofpunt_cache_unstored_total", "reason", "asker")

	// A scope: what one tenant has asked for is not in the cache for another.
	s.reload(corefile(n.Lab, text("cache_scope network")))
	for range 3 {
		for _, g := range guests {
			check(ctx, t, g, resolver4, "other.example.org.", dns.TypeA, "NOERROR 192.0.2.2")
		}
	}
	if got := up.Count("other.example.org."); got != 2 {
		t.Errorf("the upstream was asked %d times with a scope, want once for each tenant", got)
	}
	s.endWell()
}
