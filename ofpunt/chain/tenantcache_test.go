// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/cache"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

func hits(t testing.TB) func() (hits, misses float64) {
	of := func() (float64, float64) {
		return testkit.Sum(t, "coredns_cache_hits_total"), testkit.Sum(t, "coredns_cache_misses_total")
	}
	h, m := of()
	return func() (float64, float64) { a, b := of(); return a - h, b - m }
}

// upstreamAnswer answers A with an address, TXT with local options and the client subnet.
func upstreamAnswer(asked *atomic.Int64) func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
	return func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		asked.Add(1)
		m := new(dns.Msg).SetReply(r)
		q := r.Question[0]
		switch {
		case strings.HasPrefix(strings.ToLower(q.Name), "none."):
			m.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			m.Answer = []dns.RR{a(q.Name, 1)}
		case q.Qtype == dns.TypeTXT:
			said := ""
			if o := r.IsEdns0(); o != nil {
				for _, option := range o.Option {
					switch option := option.(type) {
					case *dns.EDNS0_LOCAL:
						said += fmt.Sprintf("%x.", option.Data)
					case *dns.EDNS0_SUBNET:
						said += option.Address.String() + "/" + fmt.Sprint(option.SourceNetmask)
					}
				}
			}
			m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: q.Qclass, Ttl: 600}, Txt: []string{said}}}
		}
		if len(m.Answer) == 0 {
			soa, _ := dns.NewRR("test. 600 IN SOA a. b. 1 2 3 4 5")
			m.Ns = []dns.RR{soa}
		}
		return 0, w.WriteMsg(m)
	}
}

// Tenants share addresses; red has two guests.
var (
	red1        = guest(0, 1, "10.0.0.5")
	red2        = guest(0, 2, "10.0.0.6")
	blue1       = guest(1, 1, "10.0.0.5")
	socketAsker = asker{addr: "10.0.0.5", port: 40000}
)

const textTemplate = "template IN TXT {\n answer \"{{ .Name }} 600 IN TXT \\\"%s\\\"\"\n }\n"

// Each asker gets its answer without cache, however it is made, and whoever asked before.
func TestCacheEqualsNone(t *testing.T) {
	meta := func(labels ...string) string {
		text := ""
		for _, l := range labels {
			text += `{{ .Meta \"ofpunt/` + l + `\" }};`
		}
		return fmt.Sprintf(textTemplate, text)
	}
	for _, tt := range []struct {
		name, text string
		// hits are the cache hits of the last round.
		hits float64
	}{
		{"the question alone", fmt.Sprintf(textTemplate, "{{ .Name }}"), 10},
		{"the switch", meta("switch"), 10},
		{"the port", meta("port"), 10},
		{"a key and the router", meta("external-id/k", "router"), 10},
		{"the bridge", meta("bridge"), 10},
		{"a label that is computed", fmt.Sprintf(textTemplate, `{{ .Meta (print \"ofpunt/\" \"switch\") }}`), 10},
		{"a label in a condition of the text", fmt.Sprintf(textTemplate, `{{ if eq (.Meta \"ofpunt/switch\") \"switch-a\" }}{{ .Meta \"ofpunt/port\" }}{{ else }}other{{ end }}`), 10},
		{"a label in an expression", "template IN TXT {\n expr metadata('ofpunt/switch') == 'switch-a'\n answer \"{{ .Name }} 600 IN TXT a\"\n fallthrough\n }\n", 10},
		{"a label in an expression that denies", "template IN TXT {\n expr metadata('ofpunt/switch') == 'switch-a'\n rcode NXDOMAIN\n authority \"test. 600 IN SOA a. b. 1 2 3 4 5\"\n fallthrough\n }\n", 10},
		{"a variable", "template IN TXT {\n var who metadata('ofpunt/port')\n answer \"{{ .Name }} 600 IN TXT {{ .Var.who }}\"\n }\n", 10},
		{"no data by a label", "template IN TXT {\n expr metadata('ofpunt/switch') == 'switch-b'\n rcode NOERROR\n authority \"test. 600 IN SOA a. b. 1 2 3 4 5\"\n fallthrough\n }\n", 10},
		{"a failure by a label", "template IN TXT {\n answer \"{{ .Name }} 600 IN {{ if eq (.Meta `ofpunt/switch`) `switch-a` }}TXT x{{ else }}NOTYPE{{ end }}\"\n }\n", 10},
		{"the address", fmt.Sprintf(textTemplate, "{{ .Remote }}"), 10},
		{"the address, of another name", "template IN TXT {\n match ^nobody\n answer \"{{ .Name }} 600 IN TXT {{ .Remote }}\"\n fallthrough\n }\n", 10},
		{"the address in an expression", "template IN TXT {\n expr incidr(client_ip(), '10.0.0.5/32')\n answer \"{{ .Name }} 600 IN TXT five\"\n fallthrough\n }\n", 10},
		{"the protocol", "template IN TXT {\n expr proto() == 'tcp'\n answer \"{{ .Name }} 600 IN TXT tcp\"\n fallthrough\n }\n", 10},
		{"the server's address", "template IN TXT {\n var s server_ip()\n answer \"{{ .Name }} 600 IN TXT {{ .Var.s }}\"\n }\n", 10},
		{"the port of the query", "template IN TXT {\n var p port()\n answer \"{{ .Name }} 600 IN TXT {{ .Var.p }}\"\n }\n", 0},
		{"the message", fmt.Sprintf(textTemplate, "{{ len .Message.Extra }}"), 0},
		{"whoami", "whoami\n", 0},
		{"an option with a label", "rewrite edns0 local set 0xffee {ofpunt/switch}\n", 10},
		{"an option with the address", "rewrite edns0 local append 0xffee {client_ip}\n", 10},
		{"a subnet", "rewrite edns0 subnet set 32 128\n", 10},
		{"an option for all", "rewrite edns0 local set 0xffee 0x61\n", 10},
		{"a name with a label", "rewrite name regex ^www\\.test\\.$ {ofpunt/switch}.test. metadata answer auto\n", 10},
		{"several templates", meta("switch") + fmt.Sprintf(textTemplate, "x"), 10},
		{"a view", "view v {\n expr metadata('ofpunt/switch') != 'none'\n }\n" + meta("view"), 10},
	} {
		for _, name := range []string{"www.test.", "WwW.Test."} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				text := ". {\n $OFPUNT\n $CLOSE\n metadata\n " + tt.text + "%s}\n"
				var asked atomic.Int64
				plain, cached := startCache(t, fmt.Sprintf(text, "")), startCache(t, fmt.Sprintf(text, "cache\n"))
				plain.upstream, cached.upstream = upstreamAnswer(new(atomic.Int64)), upstreamAnswer(&asked)
				tcp := red1
				tcp.tcp = true
				askers := []asker{red1, blue1, socketAsker, red2, tcp}
				for round := range 4 {
					since := hits(t)
					for i, who := range append(slices.Clone(askers), slices.Clone(askers)...) {
						if i >= len(askers) {
							who.port += 7
						}
						want, got := plain.ask(who, new(dns.Msg).SetQuestion(name, dns.TypeTXT)), cached.ask(who, new(dns.Msg).SetQuestion(name, dns.TypeTXT))
						if short(got) != short(want) || got.Truncated || len(got.Question) != 1 || got.Question[0].Name != name {
							t.Fatalf("round %d, asker %d: %v, want %v", round, i, got, want)
						}
						for j, rr := range got.Answer {
							if !strings.EqualFold(rr.Header().Name, want.Answer[j].Header().Name) {
								t.Errorf("round %d, asker %d: %v, want %v", round, i, rr, want.Answer[j])
							}
						}
					}
					// A round learns, the next one stores.
					if got, _ := since(); round == 3 && got != tt.hits {
						t.Errorf("%v hits, want %v", got, tt.hits)
					}
				}
			})
		}
	}
}

var errFailed = errors.New("failed")

func TestCacheKnowsAsker(t *testing.T) {
	read := func(ctx context.Context, label string) string {
		if f := metadata.ValueFunc(ctx, label); f != nil {
			return f()
		}
		return ""
	}
	const corefile = ". {\n $OFPUNT\n $CLOSE\n metadata\n log . {/ofpunt/switch}{/ofpunt/port}{/ofpunt/network}\n cache\n}\n"
	answer := func(w dns.ResponseWriter, r *dns.Msg, text string) (int, error) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 600}, Txt: []string{text}}}
		return 0, w.WriteMsg(m)
	}

	t.Run("equal values share an answer", func(t *testing.T) {
		rig, asked := startCache(t, corefile), 0
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			return answer(w, r, read(ctx, "ofpunt/switch"))
		}
		for _, who := range []asker{red1, red1, red2, red1, blue1, blue1, red2} {
			if got, want := rig.lookup(who, "x.test.", dns.TypeTXT), "NOERROR "+who.origin.Switch; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if asked != 3 { // to learn, and for each of two switches
			t.Errorf("asked %d times, want 3", asked)
		}
	})
	t.Run("a label that is read later", func(t *testing.T) {
		rig := startCache(t, corefile)
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			text := read(ctx, "ofpunt/switch")
			if text == "switch-a" {
				text = read(ctx, "ofpunt/port")
			}
			return answer(w, r, text)
		}
		for range 3 {
			for who, want := range map[*asker]string{&blue1: "switch-b", &red1: red1.origin.Port, &red2: red2.origin.Port} {
				if got := rig.lookup(*who, "x.test.", dns.TypeTXT); got != "NOERROR "+want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		}
	})
	t.Run("a public question that ceases to be", func(t *testing.T) {
		rig, public, asked := startCache(t, corefile), true, 0
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			if public || r.Question[0].Name != "x.test." {
				return answer(w, r, "public")
			}
			return answer(w, r, read(ctx, "ofpunt/switch"))
		}
		for range 2 {
			rig.lookup(red1, "x.test.", dns.TypeTXT)
		}
		public = false
		// A public answer stays public until it expires.
		if got := rig.lookup(blue1, "x.test.", dns.TypeTXT); got != "NOERROR public" || asked != 1 {
			t.Errorf("%q, asked %d times", got, asked)
		}
	})
	t.Run("a label that nobody names", func(t *testing.T) {
		rig := startCache(t, corefile)
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			metadata.SetValueFunc(ctx, "upstream/name", func() string { return "u" })
			metadata.SetValueFunc(ctx, "zone/wildcard", func() string { return "*.test." })
			return answer(w, r, read(ctx, "upstream/name")+read(ctx, "test/none"))
		}
		since := hits(t)
		for _, who := range []asker{red1, blue1, socketAsker} {
			if got := rig.lookup(who, "x.test.", dns.TypeTXT); got != "NOERROR u" {
				t.Error(got)
			}
		}
		if h, m := since(); h != 2 || m != 1 {
			t.Errorf("%v hits, %v misses", h, m)
		}
	})
	t.Run("a failure", func(t *testing.T) {
		rig, asked := startCache(t, corefile), 0
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			if read(ctx, "ofpunt/switch") == "switch-a" {
				return dns.RcodeServerFailure, errFailed
			}
			return answer(w, r, "well")
		}
		for range 3 {
			for who, want := range map[*asker]string{&red1: "SERVFAIL", &blue1: "NOERROR well", &socketAsker: "NOERROR well"} {
				if got := rig.lookup(*who, "x.test.", dns.TypeTXT); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		}
		if asked != 4 { // to learn, and for each of two switches and the socket
			t.Errorf("asked %d times, want 4", asked)
		}
	})
	t.Run("flags", func(t *testing.T) {
		rig, asked := startCache(t, corefile), 0
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			o := r.IsEdns0()
			return answer(w, r, fmt.Sprint(read(ctx, "ofpunt/switch"), o != nil && o.Do(), r.CheckingDisabled))
		}
		for range 3 {
			for _, who := range []asker{red1, blue1} {
				for i := range 4 {
					do, cd := i&1 != 0, i&2 != 0
					m := new(dns.Msg).SetQuestion("x.test.", dns.TypeTXT)
					m.CheckingDisabled = cd
					if do {
						m.SetEdns0(1232, true)
					}
					if got, want := short(rig.ask(who, m)), fmt.Sprint("NOERROR ", who.origin.Switch, do, cd); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
			}
		}
		if asked != 9 { // one to learn, eight to store
			t.Errorf("asked %d times, want 9", asked)
		}
	})
	t.Run("records of other owners", func(t *testing.T) {
		rig, asked := startCache(t, corefile), 0
		// Plugins such as file answer with their own records.
		own := map[string]*dns.CNAME{}
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			m := new(dns.Msg).SetReply(r)
			owner := r.Question[0].Name
			cname := &dns.CNAME{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 600}, Target: read(ctx, "ofpunt/switch") + "."}
			own[cname.Target] = cname
			m.Answer = []dns.RR{cname, a(cname.Target, 7)}
			m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 600}, Ns: owner}}
			m.Extra = []dns.RR{a(owner, 8)}
			return 0, w.WriteMsg(m)
		}
		for range 3 {
			for _, who := range []asker{red1, blue1} {
				for _, qname := range []string{"X.test.", "x.test."} {
					m := rig.ask(who, new(dns.Msg).SetQuestion(qname, dns.TypeA))
					if got, want := short(m), "NOERROR "+who.origin.Switch+". 192.0.2.7"; got != want || strings.Contains(m.String(), "..") || m.Question[0].Name != qname {
						t.Errorf("%v, want %q", m, want)
					}
					if _, err := m.Pack(); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		for _, cname := range own {
			if !strings.EqualFold(cname.Hdr.Name, "x.test.") {
				t.Errorf("the plugin's own record has become %v", cname)
			}
		}
	})
	t.Run("long names, the root, and escapes", func(t *testing.T) {
		rig, asked := startCache(t, corefile), 0
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			return answer(w, r, read(ctx, "ofpunt/switch"))
		}
		long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61) + "."
		names := []string{long, ".", "com.", `a\.b.test.`, `\000\255.test.`, `\\.`, "xn--a.test."}
		for range 3 {
			for _, qname := range names {
				for _, who := range []asker{red1, blue1} {
					m := rig.ask(who, new(dns.Msg).SetQuestion(qname, dns.TypeTXT))
					if got, want := short(m), "NOERROR "+who.origin.Switch; got != want || m.Question[0].Name != qname || m.Answer[0].Header().Name != qname {
						t.Errorf("%q: %v, want %q", qname, m, want)
					}
				}
			}
		}
		if asked != 3*len(names) {
			t.Errorf("asked %d times, want %d", asked, 3*len(names))
		}
	})
	t.Run("an answer to another question", func(t *testing.T) {
		rig := startCache(t, corefile)
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			c := r.Copy()
			c.Question[0].Name = "other.test."
			return answer(w, c, read(ctx, "ofpunt/switch"))
		}
		for range 3 {
			for _, who := range []asker{red1, blue1} {
				if got, want := rig.lookup(who, "x.test.", dns.TypeTXT), "NOERROR "+who.origin.Switch; got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		}
	})
	t.Run("a value that changes during the query", func(t *testing.T) {
		rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n metadata\n log . {/ofpunt/external-id/k}\n cache\n}\n")
		who, keys := red1, &changingKey{}
		o := *red1.origin
		o.Attributes = keys
		who.origin = &o
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			keys.Add(100) // the database has changed
			defer keys.Add(-100)
			return answer(w, r, read(ctx, "ofpunt/external-id/k"))
		}
		rig.lookup(who, "x.test.", dns.TypeTXT)
		if got := rig.lookup(who, "x.test.", dns.TypeTXT); got != "NOERROR 0" {
			t.Errorf("stored is %q, for the value 0", got)
		}
	})
}

type changingKey struct{ atomic.Int64 }

func (k *changingKey) Routers() string          { return "" }
func (k *changingKey) Groups() string           { return "" }
func (k *changingKey) ExternalID(string) string { return fmt.Sprint(k.Load()) }

// A plugin above cache may add to the key.
func TestCacheKeyOfPlugins(t *testing.T) {
	var asked atomic.Int64
	s := chain(t, as{name: "private", serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		if o, ok := origin.FromContext(ctx); ok {
			ctx = cachekey.With(ctx, o.Network.String())
		}
		return next.ServeDNS(ctx, w, r)
	}}.plugin(), newCache(), as{name: "end", serve: func(ctx context.Context, _ plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		asked.Add(1)
		o, _ := origin.FromContext(ctx)
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{a(r.Question[0].Name, o.Network[15])}
		return 0, w.WriteMsg(m)
	}}.plugin())
	rig := &cacheRig{Server: &Server{dns: s}}
	for range 3 {
		for _, who := range []asker{red1, red2, blue1} {
			if got, want := rig.lookup(who, "x.test.", dns.TypeA), fmt.Sprintf("NOERROR 192.0.2.%d", who.origin.Network[15]); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want 2", asked.Load())
	}
}

// A plugin above cache may choose the handler below, also for names that *cache* does not handle.
func TestCacheRoute(t *testing.T) {
	for _, tt := range []struct {
		name  string
		zones []string // of cache
		asked int64
	}{
		{"all zones", nil, 2},
		{"another zone", []string{"other.example."}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked, below atomic.Int64
			server := as{name: "server", serve: func(ctx context.Context, _ plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				asked.Add(1)
				o, _ := origin.FromContext(ctx)
				m := new(dns.Msg).SetReply(r)
				m.Answer = []dns.RR{a(r.Question[0].Name, o.Network[15])}
				return 0, w.WriteMsg(m)
			}}
			route := as{name: "route", serve: func(ctx context.Context, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				if o, ok := origin.FromContext(ctx); ok && r.Question[0].Name == "x.test." {
					ctx = cachekey.Route(ctx, o.Network.String(), server)
				}
				return next.ServeDNS(ctx, w, r)
			}}
			rig := startRouted(t, tt.zones, route.plugin(), end(func(w dns.ResponseWriter, r *dns.Msg) {
				below.Add(1)
				_ = w.WriteMsg(new(dns.Msg).SetReply(r))
			}))
			for range 3 {
				for _, who := range []asker{red1, red2, blue1} {
					if got, want := rig.lookup(who, "x.test.", dns.TypeA), fmt.Sprintf("NOERROR 192.0.2.%d", who.origin.Network[15]); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
			}
			if asked.Load() != tt.asked || below.Load() != 0 {
				t.Errorf("asked %d times, want %d; the plugins below %d times", asked.Load(), tt.asked, below.Load())
			}
			if got := rig.lookup(red1, "y.test.", dns.TypeA); got != "NOERROR" || below.Load() != 1 {
				t.Errorf("another name: %q, the plugins below were asked %d times", got, below.Load())
			}
		})
	}
}

// startRouted gives *cache* the zones; nil is all.
func startRouted(t *testing.T, zones []string, above, below plugin.Plugin) *cacheRig {
	t.Helper()
	tokens := []caddyfile.Token{{Text: "cache"}}
	for _, z := range zones {
		tokens = append(tokens, caddyfile.Token{Text: z})
	}
	c := cache.New()
	c.Zones = zones
	if zones == nil {
		c.Zones = []string{"."}
	}
	first := func(next plugin.Handler) plugin.Handler { return newTestHandler(next) }
	middle := func(next plugin.Handler) plugin.Handler { c.Next = next; return c }
	o := tenantcache.Options{Detach: detach, Block: caddyfile.ServerBlock{Keys: []string{"."}, Tokens: map[string][]caddyfile.Token{"cache": tokens}}}
	s, err := dnsserver.NewServer(name+"://br", []*dnsserver.Config{{Zone: ".", Plugin: insertOwnHandlers([]plugin.Plugin{first, above, middle, below}, o)}})
	if err != nil {
		t.Fatal(err)
	}
	return &cacheRig{Server: &Server{dns: s}}
}

// Nobody gets an entry by its name in cache, neither by wire nor by a plugin.
func TestCacheForgedName(t *testing.T) {
	const corefile = ". {\n $OFPUNT\n $CLOSE\n metadata\n log . {/ofpunt/switch}\n cache\n}\n"
	rig := startCache(t, corefile)
	var below string
	rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		below = r.Question[0].Name
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: below, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 600}, Txt: []string{metadata.ValueFunc(ctx, "ofpunt/switch")()}}}
		return 0, w.WriteMsg(m)
	}
	// Handlers around cache give entries these names.
	for range 3 {
		rig.lookup(red1, "x.test.", dns.TypeTXT)
	}
	token := strings.Repeat("a", 32)
	for _, forged := range []string{token + "..x.test.", token + ".x.test.", "..x.test.", ".x.test."} {
		for range 3 {
			if got := rig.lookup(blue1, forged, dns.TypeTXT); got != "NOERROR switch-b" || below != forged {
				t.Errorf("%s: %q, and the plugins below see %s", forged, got, below)
			}
		}
		m := new(dns.Msg).SetQuestion(forged, dns.TypeTXT)
		if b, err := m.Pack(); err == nil {
			if err := new(dns.Msg).Unpack(b); err == nil && strings.Contains(forged, "..") {
				t.Errorf("%s can be asked for", forged)
			}
		}
	}
}
