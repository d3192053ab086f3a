// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
)

// Only explained queries skip observers.
func TestObserversAreLeftOut(t *testing.T) {
	for _, tt := range []struct{ name, plugins, explained string }{
		{"one run", "prometheus log audit acl forward", "acl forward"},
		{"a run without audit", "log prometheus acl forward", "acl forward"},
		{"two runs", "errors rewrite dnstap audit acl forward", "rewrite acl forward"},
		{"the last", "acl errors", "acl"},
		{"none", "rewrite forward", "rewrite forward"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var went []string
			var plugins []plugin.Plugin
			for _, n := range strings.Fields(tt.plugins) {
				plugins = append(plugins, as{name: n, serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
					went = append(went, n)
					return plugin.NextOrFailure(n, next, ctx, w, r)
				}}.plugin())
			}
			s := chain(t, plugins...)
			ask(s, "a.test.")
			if want := strings.Fields(tt.plugins); !slices.Equal(went, want) {
				t.Errorf("went through %q, want %q", went, want)
			}
			went = nil
			e := explain.New()
			defer e.End()
			ask(s, "a.test.") // of a guest, meanwhile
			if want := strings.Fields(tt.plugins); !slices.Equal(went, want) {
				t.Errorf("beside an explanation: went through %q, want %q", went, want)
			}
			went = nil
			ctx := e.Context(context.WithValue(context.Background(), dnsserver.Key{}, s))
			s.ServeDNS(ctx, &recorder{}, new(dns.Msg).SetQuestion("a.test.", dns.TypeA))
			if want := strings.Fields(tt.explained); !slices.Equal(went, want) {
				t.Errorf("explained: went through %q, want %q", went, want)
			}
			var left, steps []string
			for _, step := range e.Report().Steps {
				if step.Left {
					left = append(left, step.Plugin)
				} else {
					steps = append(steps, step.Plugin)
				}
			}
			if want := strings.Fields(tt.explained); !slices.Equal(steps, want) {
				t.Errorf("steps of %q, want %q", steps, want)
			}
			if n := len(strings.Fields(tt.plugins)) - len(strings.Fields(tt.explained)); len(left) != n {
				t.Errorf("left out %q, want %d", left, n)
			}
		})
	}
}

// An explanation reads cache like a guest, but stores nothing.
func TestExplainedCache(t *testing.T) {
	last := byte(1)
	s := chain(t, newCache(), end(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{a(r.Question[0].Name, last)}
		_ = w.WriteMsg(m)
	}))
	explained := func() (cached, below string, answer *dns.Msg) {
		e := explain.New()
		defer e.End()
		w := &recorder{}
		s.ServeDNS(e.Context(context.WithValue(context.Background(), dnsserver.Key{}, s)), w, new(dns.Msg).SetQuestion("a.test.", dns.TypeA))
		r := e.Report()
		return r.Cached, r.Below, w.msg
	}
	for range 2 {
		if cached, below, m := explained(); cached != "" || below != "" || explain.Content(m) != "NOERROR A 192.0.2.1" {
			t.Fatalf("cached %q, answer %v", cached, m)
		}
	}
	last = 2
	if m := ask(s, "a.test."); explain.Content(m) != "NOERROR A 192.0.2.2" {
		t.Fatalf("an explanation was stored: %v", m)
	}
	last = 3
	if cached, below, m := explained(); cached != "NOERROR A 192.0.2.2" || below != "NOERROR A 192.0.2.3" || explain.Content(m) != cached {
		t.Errorf("cached %q, below it %q, answer %v", cached, below, m)
	}
	if m := ask(s, "a.test."); explain.Content(m) != "NOERROR A 192.0.2.2" {
		t.Errorf("an explanation has changed what is stored: %v", m)
	}
}
