// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/testkit"
)

func pluginsCounted(t *testing.T, server string) (all []string) {
	t.Helper()
	for _, s := range testkit.Gather(t, prometheus.DefaultGatherer) {
		if s.Name == "coredns_dns_responses_total" && s.Labels["server"] == server {
			all = append(all, s.Labels["plugin"])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The label plugin has the values that it has without puntdns' handlers.
func TestAnsweringPlugin(t *testing.T) {
	passes := func(n string) plugin.Plugin {
		return as{name: n, serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			return plugin.NextOrFailure(n, next, ctx, w, r)
		}}.plugin()
	}
	for _, tt := range []struct{ plugins, want string }{
		{"prometheus forward", "forward"},
		{"prometheus cache forward", "cache"},
		{"prometheus rewrite cache forward", "rewrite"},
		{"prometheus errors cache forward", "errors"},
		{"prometheus errors log cache forward", "errors"},
		{"prometheus ovnhosts cache forward", "ovnhosts"},
		{"errors prometheus local log forward", "local"},
	} {
		t.Run(tt.plugins, func(t *testing.T) {
			names := strings.Fields(tt.plugins)
			plugins := func() (all []plugin.Plugin) {
				for _, n := range names {
					switch n {
					case "prometheus":
						all = append(all, func(next plugin.Handler) plugin.Handler { m := metrics.New(":0"); m.Next = next; return m })
					case "cache":
						all = append(all, newCache())
					case "forward":
						all = append(all, end(func(w dns.ResponseWriter, r *dns.Msg) {
							m := new(dns.Msg).SetReply(r)
							m.Answer = []dns.RR{a(r.Question[0].Name, 1)}
							_ = w.WriteMsg(m)
						}))
					default:
						all = append(all, passes(n))
					}
				}
				return all
			}
			stock, err := dnsserver.NewServer("stock: "+tt.plugins, []*dnsserver.Config{{Zone: ".", Plugin: plugins()}})
			if err != nil {
				t.Fatal(err)
			}
			ours := chain(t, plugins()...)
			ours.Addr = "ours: " + tt.plugins
			for range 2 { // by forward, and from cache
				if m := ask(stock, "a.test."); m == nil || len(m.Answer) != 1 {
					t.Errorf("stock: %v", m)
				}
				if m := ask(ours, "a.test."); m == nil || len(m.Answer) != 1 {
					t.Errorf("ours: %v", m)
				}
				rig := &cacheRig{Server: &Server{dns: ours}}
				if got := rig.lookup(red1, "b.test.", dns.TypeA); got != "NOERROR 192.0.2.1" {
					t.Errorf("ours, by a punt: %s", got)
				}
			}
			for _, s := range []*dnsserver.Server{stock, ours} {
				if got := pluginsCounted(t, s.Addr); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("%s: counted for %q, want %q", s.Addr, got, tt.want)
				}
			}
		})
	}
}
