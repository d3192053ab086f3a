// SPDX-License-Identifier: Apache-2.0

package private

import (
	"context"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

func records(t *testing.T, texts ...string) (rrs []dns.RR) {
	t.Helper()
	for _, s := range texts {
		rr, err := dns.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

func TestRebind(t *testing.T) {
	const (
		protected = "rebind_protection on"
		noData    = "NOERROR SOA example. 30"
		signature = "www.example. 60 IN RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA"
	)
	for _, tt := range []struct {
		name, corefile, qname, qtype string
		upstream                     []string
		want                         string
	}{
		{"off", "", "www.example.", "A", []string{"www.example. 60 IN A 10.0.0.1"}, "NOERROR = 10.0.0.1"},
		{"public", protected, "www.example.", "A", []string{"www.example. 60 IN A 192.0.2.1", signature}, "NOERROR = 192.0.2.1 = A 13 2 60 20300101000000 20200101000000 1 example. AAAA"},
		{"private", protected, "www.example.", "A", []string{"www.example. 60 IN A 10.0.0.1"}, noData},
		{"the metadata service", protected, "www.example.", "A", []string{"www.example. 60 IN A 169.254.169.254"}, noData},
		{"both", protected, "www.example.", "A", []string{"www.example. 60 IN A 192.0.2.1", "www.example. 60 IN A 192.168.0.1", signature}, "NOERROR = 192.0.2.1"},
		{"IPv6", protected, "www.example.", "AAAA", []string{"www.example. 60 IN AAAA fd00::1", "www.example. 60 IN AAAA ::1"}, noData},
		{"mapped", protected, "www.example.", "AAAA", []string{"www.example. 60 IN AAAA ::ffff:10.0.0.1"}, noData},
		{"translated", protected, "www.example.", "AAAA", []string{"www.example. 60 IN AAAA 64:ff9b::a00:1"}, noData},
		{"translated, public", protected, "www.example.", "AAAA", []string{"www.example. 60 IN AAAA 64:ff9b::c000:201"}, "NOERROR = 64:ff9b::c000:201"},
		{"an alias", protected, "www.example.", "A", []string{"www.example. 60 IN CNAME in.corp.example.", "in.corp.example. 60 IN A 10.0.0.1"}, noData},
		{"an alias of an exception", protected + " except corp.example", "www.example.", "A", []string{"www.example. 60 IN CNAME in.corp.example.", "in.corp.example. 60 IN A 10.0.0.1"}, noData},
		{"an exception", protected + " except example", "www.example.", "A", []string{"www.example. 60 IN A 10.0.0.1"}, "NOERROR = 10.0.0.1"},
		{"a hint", protected, "www.example.", "HTTPS", []string{"www.example. 60 IN HTTPS 1 . ipv4hint=192.0.2.1,10.0.0.1"}, noData},
		{"a hint in IPv6", protected, "_dns.example.", "SVCB", []string{"_dns.example. 60 IN SVCB 1 a.example. ipv6hint=fe80::1"}, noData},
		{"no hint", protected, "www.example.", "HTTPS", []string{"www.example. 60 IN HTTPS 1 . alpn=h2"}, `NOERROR = 1 . alpn="h2"`},
		{"other data", protected, "www.example.", "TXT", []string{`www.example. 60 IN TXT "10.0.0.1"`}, `NOERROR = "10.0.0.1"`},
		{"ANY", protected, "www.example.", "ANY", []string{"www.example. 60 IN A 10.0.0.1", `www.example. 60 IN TXT "a"`}, `NOERROR = "a"`},
		{"the root", protected, ".", "A", []string{". 60 IN A 10.0.0.1"}, "NOERROR = 10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, u := handler(t, "private {\n "+tt.corefile+"\n}")
			u.rrs = records(t, tt.upstream...)
			r := new(dns.Msg).SetQuestion(tt.qname, dns.StringToType[tt.qtype])
			w := nonwriter.New(&test.ResponseWriter{})
			if _, err := h.ServeDNS(context.Background(), w, r); err != nil {
				t.Fatal(err)
			}
			if got := short(w.Msg); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if changed := len(w.Msg.Answer) < len(u.rrs); w.Msg.AuthenticatedData == changed {
				t.Errorf("AD is %v", w.Msg.AuthenticatedData)
			}
			for i, rr := range records(t, tt.upstream...) {
				if u.rrs[i].String() != rr.String() {
					t.Errorf("the upstream's own record has become %s", u.rrs[i])
				}
			}
		})
	}
}
