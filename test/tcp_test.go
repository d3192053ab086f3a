// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Tenants that are alike to the last address get their own names over TCP too, by
// OVN's pipeline with stateful ACLs.
func TestTCPTenants(t *testing.T) {
	n := newOverlap(t)
	up := n.Upstream("www.example.org. 60 IN A 192.0.2.5")
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "forward . "+up.Addr))
	for _, q := range sharedQuestions {
		if q.red == "" || q.blue == "" {
			continue
		}
		for _, g := range []*lab.Guest{n.red, n.blue} {
			for _, resolver := range resolvers {
				r := g.Dig("+tcp", "@"+resolver, q.name, dns.TypeToString[q.qtype])
				if want := n.want(q, g, false); r.String() != want {
					t.Errorf("%s asks %s for %s: %s, want %s\n%s", g.Name, resolver, q, r, want, r.Out)
				}
			}
		}
	}
	s.endWell()
}
