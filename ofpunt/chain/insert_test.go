// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/cache"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// as makes a plugin of a function.
type as struct {
	name  string
	serve func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error)
	next  plugin.Handler
}

func (h as) Name() string { return h.name }
func (h as) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return h.serve(ctx, h.next, w, r)
}

func (h as) plugin() plugin.Plugin {
	return func(next plugin.Handler) plugin.Handler { h.next = next; return h }
}

func end(f func(w dns.ResponseWriter, r *dns.Msg)) plugin.Plugin {
	return as{name: "forward", serve: func(_ context.Context, _ plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		f(w, r)
		return dns.RcodeSuccess, nil
	}}.plugin()
}

func TestInsertOwnHandlers(t *testing.T) {
	for _, tt := range []struct{ name, plugins, want string }{
		{"all", "ofpunt prometheus log dnstap rewrite ovnhosts cache forward", "ofpunt + prometheus log + dnstap + + rewrite ovnhosts + cache + forward"},
		{"no rewrite", "ofpunt errors ovnhosts cache forward", "ofpunt + errors ovnhosts + + + cache + forward"},
		{"no cache", "ofpunt prometheus errors rewrite ovnhosts forward", "ofpunt + prometheus + errors + rewrite ovnhosts forward"},
		{"forward alone", "ofpunt ovnhosts forward", "ofpunt ovnhosts + forward"},
		{"servers of networks", "ofpunt ovnhosts ovnforward cache forward", "ofpunt ovnhosts + ovnforward + + cache + forward"},
		{"nothing", "ofpunt ovnhosts template", "ofpunt ovnhosts template"},
		{"the last", "ofpunt log", "ofpunt + log +"},
		{"whoami", "ofpunt ovnhosts cache forward whoami", "ofpunt ovnhosts + + + cache + forward + whoami"},
		{"whoami without cache", "ofpunt ovnhosts whoami", "ofpunt ovnhosts whoami"},
		{"cache the last", "ofpunt cache", "ofpunt + + + cache +"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var plugins []plugin.Plugin
			for _, n := range strings.Fields(tt.plugins) {
				plugins = append(plugins, as{name: n}.plugin())
			}
			var got []string
			var next plugin.Handler
			for _, p := range slices.Backward(insertOwnHandlers(plugins, tenantcache.Options{})) {
				next = p(next)
				said := next.Name()
				if _, own := next.(as); !own {
					said = "+"
				}
				got = append(got, said)
			}
			slices.Reverse(got)
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func newTestHandler(next plugin.Handler) plugin.Handler {
	return &Handler{Next: next, duration: metric.AnswerDuration.WithLabelValues("", "")}
}

func chain(t *testing.T, plugins ...plugin.Plugin) *dnsserver.Server {
	t.Helper()
	c := &dnsserver.Config{Zone: ".", Plugin: insertOwnHandlers(append([]plugin.Plugin{newTestHandler}, plugins...), tenantcache.Options{Detach: detach})}
	s, err := dnsserver.NewServer(name+"://br", []*dnsserver.Config{c})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask asks as a socket does.
func ask(s *dnsserver.Server, name string) *dns.Msg {
	w := &recorder{}
	ctx := context.WithValue(context.Background(), dnsserver.Key{}, s)
	s.ServeDNS(ctx, w, new(dns.Msg).SetQuestion(name, dns.TypeA))
	return w.msg
}

type recorder struct {
	test.ResponseWriter
	msg *dns.Msg
}

func (r *recorder) WriteMsg(m *dns.Msg) error { r.msg = m; return nil }

func a(name string, last byte) dns.RR {
	return &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 600}, A: net.IPv4(192, 0, 2, last)}
}

func newCache() plugin.Plugin {
	c := cache.New()
	return func(next plugin.Handler) plugin.Handler { c.Next = next; return c }
}

// cache stores no answer that a plugin below made from a lookup, and keeps its TC.
func TestAnswerWithLookupIsNotStored(t *testing.T) {
	asked := map[string]int{}
	s := chain(t, newCache(),
		as{name: "file", serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			name := r.Question[0].Name
			if name != "alias." && name != "cut." && name != "failed." {
				return next.ServeDNS(ctx, w, r)
			}
			asked[name]++
			m := new(dns.Msg).SetReply(r)
			m.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 600}, Target: "target."}}
			found, err := upstream.New().Lookup(ctx, request.Request{W: w, Req: r}, "target.", dns.TypeA)
			if err != nil {
				return dns.RcodeServerFailure, err
			}
			if name == "failed." {
				return dns.RcodeServerFailure, errFailed
			}
			m.Answer, m.Truncated = append(m.Answer, found.Answer...), name == "cut."
			return dns.RcodeSuccess, w.WriteMsg(m)
		}}.plugin(),
		end(func(w dns.ResponseWriter, r *dns.Msg) {
			name := r.Question[0].Name
			asked[name]++
			m := new(dns.Msg).SetReply(r)
			m.Answer = []dns.RR{a(name, 1)}
			_ = w.WriteMsg(m)
		}))
	for range 3 {
		for name, records := range map[string]int{"alias.": 2, "cut.": 2, "plain.": 1, "failed.": 0} {
			m := ask(s, name)
			if m == nil || len(m.Answer) != records || m.Truncated != (name == "cut.") {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
	for name, want := range map[string]int{"alias.": 3, "cut.": 3, "failed.": 3, "plain.": 1, "target.": 1} {
		if asked[name] != want {
			t.Errorf("%s was asked for %d times, want %d", name, asked[name], want)
		}
	}
}

// The empty answer to a lookup is not stored: a guest's query for the name is still resumed.
func TestEmptyLookupIsNotStored(t *testing.T) {
	s := chain(t, newCache(),
		as{name: "file", serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			if r.Question[0].Name != "alias." {
				return next.ServeDNS(ctx, w, r)
			}
			found, err := upstream.New().Lookup(ctx, request.Request{W: w, Req: r}, "target.", dns.TypeA)
			if err != nil || found.Rcode != dns.RcodeSuccess || found.Truncated || len(found.Answer) > 0 {
				t.Errorf("the lookup: %v, %v", found, err)
			}
			return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
		}}.plugin(),
		func(plugin.Handler) plugin.Handler { return resumeUnanswered{} })
	for _, step := range []struct {
		name    string
		resumed int
	}{{"alias.", 0}, {"target.", 1}, {"alias.", 0}, {"target.", 1}} {
		x, r := &punt.Exchange{}, &resumer{}
		x.Request().SetQuestion(step.name, dns.TypeA)
		w := &recorder{}
		s.ServeDNS(puntContext(s, x, &origin.Origin{Resumer: r}), w, x.Request())
		if r.times != step.resumed || (w.msg == nil) != (step.resumed == 1) {
			t.Errorf("%s: resumed %d times, answered %v", step.name, r.times, w.msg)
		}
	}
}

func puntContext(s *dnsserver.Server, x *punt.Exchange, o *origin.Origin) context.Context {
	return context.WithValue(origin.NewContext((&Server{dns: s}).Context(), o), punt.Key{}, x)
}

type resumer struct{ times int }

func (r *resumer) Resume() error { r.times++; return nil }

// A query that cache makes before an answer expires is a lookup.
func TestPrefetchIsALookup(t *testing.T) {
	lookups := make(chan bool, 1)
	below := tenantcache.New(tenantcache.Options{Detach: detach}).Below
	report := as{name: "end", serve: func(ctx context.Context, _ plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		o, ok := origin.FromContext(ctx)
		lookups <- ok && o.Lookup && o.Resumer == nil
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{a("a.", 1)}
		m.Answer[0].Header().Ttl = 1 // at least 5 s in the cache: 90 % of 5 rounds up to all
		return dns.RcodeSuccess, w.WriteMsg(m)
	}}
	h := below(report)
	ctx := puntContext(chain(t), &punt.Exchange{}, &origin.Origin{Resumer: &resumer{}})
	for _, tt := range []struct {
		name string
		w    dns.ResponseWriter
		want bool
	}{
		{"the guest's, UDP", &test.ResponseWriter{}, false},
		{"the guest's, TCP", &test.ResponseWriter{TCP: true}, false},
		{"nobody's", &nobody{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := h.ServeDNS(ctx, tt.w, new(dns.Msg).SetQuestion("a.", dns.TypeA)); err != nil {
				t.Fatal(err)
			}
			if got := <-lookups; got != tt.want {
				t.Errorf("a lookup: %v", got)
			}
		})
	}
	t.Run("that of cache itself", func(t *testing.T) {
		setup, err := caddy.DirectiveAction("dns", "cache")
		if err != nil {
			t.Fatal(err)
		}
		c := caddy.NewTestController("dns", "cache {\n prefetch 1 1m 90%\n}")
		c.ServerBlockKeys = []string{"."}
		if err := setup(c); err != nil {
			t.Fatal(err)
		}
		cache := dnsserver.GetConfig(c).Plugin[0](below(report))
		for i, want := range []bool{false, true} {
			if _, err := cache.ServeDNS(ctx, &test.ResponseWriter{}, new(dns.Msg).SetQuestion("a.", dns.TypeA)); err != nil {
				t.Fatal(err)
			}
			if got := <-lookups; got != want {
				t.Errorf("question %d: a lookup: %v", i, got)
			}
		}
	})
}

// nobody is the writer of a prefetch (prefetchAddr of CoreDNS' plugin/cache).
type nobody struct{ test.ResponseWriter }

func (nobody) LocalAddr() net.Addr { return &net.TCPAddr{} }
