// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// aliases are plugins that look up a name of their own: a CNAME of template, one of
// file that leads out of its zone, and one that rewrite changes.
func aliases(l *lab.Lab) string {
	zone := l.WriteFile("example.net", `
$ORIGIN example.net.
@     60 IN SOA ns hostmaster 1 3600 600 86400 5
@     60 IN NS  ns
ns    60 IN A   192.0.2.53
out   60 IN CNAME www.example.org.
own   60 IN CNAME db.internal.
`)
	return `rewrite cname exact old.example.org. new.example.org.
    template IN A template.example rewrite.example {
        match ^out\.template\.example\.$
        answer "{{ .Name }} 60 IN CNAME www.example.org."
        fallthrough
    }
    template IN A template.example {
        match ^own\.template\.example\.$
        answer "{{ .Name }} 60 IN CNAME db.internal."
        fallthrough
    }
    template IN A rewrite.example {
        answer "{{ .Name }} 60 IN CNAME old.example.org."
    }
    file ` + zone + ` example.net`
}

// A lookup that a plugin makes for itself does not send the guest's packet on, but
// finds nothing where nobody here has an answer; a name of the asker's network it finds.
// What is sent on, or dropped, is neither an error nor an answer in log and metrics.
func TestLookups(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	own := n.peer.ServeDNS("10.0.0.12:53", "www.example.org. 77 IN A 192.0.2.77",
		"out.template.example. 77 IN A 192.0.2.77", "out.example.net. 77 IN A 192.0.2.77", "out.rewrite.example. 77 IN A 192.0.2.77")
	const head = `
    metadata
    errors
    log . "the chain says {name} {rcode}, a {/log/class}"
    prometheus ` + metricsAddr + `
    acl {
        drop type TXT
    }
    `
	block := func(zones, properties, plugins string) string {
		return zones + ` {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        ` + properties + `
    }` + head + `
    ovnhosts . {
        southbound $SB
        fallthrough
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ` + plugins + "\n}\n"
	}
	for _, tt := range []struct {
		name, text string
		service    bool
	}{
		{name: "service", text: block(".", "address 10.0.0.12 "+resolver4, "cache\n    "+aliases(n.Lab)+"\n    passthrough"), service: true},
		{name: "hijack", text: block(".", "address any", aliases(n.Lab))},
		{name: "hijack, a lookup that no block takes", text: block("internal example example.net", "address any", aliases(n.Lab))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, n.Lab, tt.text)
			lookedUp := own.Count("www.example.org")
			for _, q := range []struct{ name, want string }{
				{"out.template.example", "NOERROR www.example.org."},
				{"own.template.example", "NOERROR db.internal. 10.0.0.9"},
				{"out.example.net", "NOERROR www.example.org."},
				{"own.example.net", "NOERROR db.internal. 10.0.0.9"},
				{"out.rewrite.example", "NOERROR new.example.org."},
			} {
				n.punts(t, s, 1, func() { expect(t, n.vm, q.want, "@10.0.0.12", q.name) })
				if got := own.Count(q.name); got != 0 {
					t.Errorf("%s was sent on %d times", q.name, got)
				}
				if tt.service {
					expect(t, n.vm, q.want, "+tcp", "@10.0.0.12", q.name)
				}
			}
			if got := own.Count("www.example.org") - lookedUp; got != 0 {
				t.Errorf("%d lookups were sent on", got)
			}

			responses := func(rcode string) float64 {
				return s.metric("coredns_dns_responses_total", "server", "ofpunt://br-int", "rcode", rcode)
			}
			s.idle()
			before, asked := responses("NOERROR"), own.Count("www.sent.example")
			if tt.service {
				// What only the one gets who asks over TCP.
				expect(t, n.vm, "SERVFAIL", "+tcp", "@10.0.0.12", "www.sent.example")
			}
			for range 2 {
				expect(t, n.vm, "NXDOMAIN", "@10.0.0.12", "www.sent.example")
			}
			expect(t, n.vm, "no reply", "+time=1", "@10.0.0.12", "www.sent.example", "TXT")
			if got := own.Count("www.sent.example") - asked; got != 2 {
				t.Errorf("www.sent.example was sent on %d times", got)
			}
			if tt.name != "hijack, a lookup that no block takes" {
				for rcode, want := range map[string]float64{"RESUMED": 2, "DROPPED": 1} {
					// A query is counted and logged after it has gone on.
					s.reaches(want, "coredns_dns_responses_total", "server", "ofpunt://br-int", "rcode", rcode)
					n.Eventually("the log of "+rcode, func() error {
						if got := strings.Count(s.Log(), "the chain says www.sent.example. "+rcode+", a success\n"); got != int(want) {
							return fmt.Errorf("%d lines, want %v\n%s", got, want, s.Log())
						}
						return nil
					})
				}
			}
			if got := responses("NOERROR"); got != before {
				t.Errorf("%v of them are NOERROR", got-before)
			}
			// What the lookups did not find is not kept from the guest itself.
			expect(t, n.vm, "NOERROR www.example.org.", "@10.0.0.12", "out.template.example")
			expect(t, n.vm, "NOERROR 77 192.0.2.77", "@10.0.0.12", "www.example.org")
			s.endWell()
		})
	}
}

// Whatever one guest puts into a query, what others read from the cache is the same;
// and an answer that depends on the asker by a lookup is not kept at all.
func TestCacheShared(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	up := n.Upstream()
	up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.RecursionAvailable = true
		record := func(ip string) {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 600}, A: net.ParseIP(ip)})
		}
		opt := r.IsEdns0()
		switch {
		case !r.RecursionDesired:
			m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 600}, Ns: "ns.example."}}
		case r.Zero, r.Truncated, r.Authoritative, len(r.Ns) > 0, opt != nil && opt.Hdr.Ttl&0x7fff != 0:
			m.Rcode = dns.RcodeServerFailure
		case opt != nil && len(opt.Option) > 0:
			record("192.0.2.66")
		default:
			record("192.0.2.1")
		}
		_ = w.WriteMsg(m)
	}))
	right := pipelineCorefile("", "fallthrough", "cache 30\n    "+aliases(n.Lab)+"\n    timeouts {\n        idle 1m\n        maxtcpqueries 2\n    }\n    forward . "+up.Addr)
	s := serve(t, n.Lab, right)
	option := func(o dns.EDNS0) func(*dns.Msg) {
		return func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().Option = []dns.EDNS0{o} }
	}
	odd := []struct {
		name string
		make func(*dns.Msg)
	}{
		{"no RD", func(m *dns.Msg) { m.RecursionDesired = false }},
		{"Z", func(m *dns.Msg) { m.Zero = true }},
		{"TC", func(m *dns.Msg) { m.Truncated = true }},
		{"AA", func(m *dns.Msg) { m.Authoritative = true }},
		{"authority", func(m *dns.Msg) {
			m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: "ns."}}
		}},
		{"flag of EDNS", func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().Hdr.Ttl |= 1 << 14 }},
		{"client subnet", option(&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(198, 51, 100, 0).To4()})},
		{"cookie", option(&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})},
		{"local option", option(&dns.EDNS0_LOCAL{Code: 0xffee, Data: []byte("blue")})},
	}
	ctx := within(t, 2*wait)
	for i, tt := range odd {
		for transport, ask := range map[string]func(m *dns.Msg) (*dns.Msg, error){
			"udp": func(m *dns.Msg) (*dns.Msg, error) {
				r, _, err := n.blue.Exchange(ctx, m, net.JoinHostPort(resolver4, "53"))
				return r, err
			},
			"tcp": func(m *dns.Msg) (*dns.Msg, error) {
				r, _, err := n.blue.ExchangeTCP(ctx, m, net.JoinHostPort(resolver4, "53"))
				return r, err
			},
		} {
			t.Run(tt.name+", "+transport, func(t *testing.T) {
				name := fmt.Sprintf("%s%d.example.", transport, i)
				for range 2 { // not in the cache, and in it
					m := new(dns.Msg).SetQuestion(name, dns.TypeA)
					tt.make(m)
					r, err := ask(m)
					if err != nil || inShort(r) != "NOERROR 192.0.2.1" || r.RecursionDesired != m.RecursionDesired {
						t.Errorf("blue gets %v: %v", r, err)
					}
				}
				check(ctx, t, n.red, resolver4, name, dns.TypeA, "NOERROR 192.0.2.1")
				if got := up.Count(name); got != 1 {
					t.Errorf("the upstream was asked %d times", got)
				}
			})
		}
	}
	for range 2 {
		for _, name := range []string{"own.template.example.", "own.example.net."} {
			check(ctx, t, n.red, resolver4, name, dns.TypeA, "NOERROR db.internal. 10.0.1.101")
			check(ctx, t, n.blue, resolver4, name, dns.TypeA, "NOERROR db.internal. 10.0.1.201")
		}
		// The target is kept.
		check(ctx, t, n.red, resolver4, "out.template.example.", dns.TypeA, "NOERROR www.example.org. 192.0.2.1")
		check(ctx, t, n.blue, resolver4, "out.example.net.", dns.TypeA, "NOERROR www.example.org. 192.0.2.1")
	}
	if got := up.Count("www.example.org."); got != 1 {
		t.Errorf("the upstream was asked %d times for the target of CNAMEs", got)
	}

	t.Run("maxtcpqueries", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		for id := range uint16(2) {
			asks(t, c, id, "db.internal.", dns.TypeA)
			mustTell(t, c, id, "NOERROR 10.0.1.101")
		}
		if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last query: %v, want the end", err)
		}
	})
	t.Run("refused at a reload", func(t *testing.T) {
		enabled := func() (all []string) {
			for _, p := range []string{"ofpunt", "metadata", "cache", "template", "file", "forward", "view"} {
				if s.metric("coredns_plugin_enabled", "server", "ofpunt://br-int", "zone", ".", "name", p) == 1 {
					all = append(all, p)
				}
			}
			return all
		}
		want := []string{"ofpunt", "metadata", "cache", "template", "file", "forward"}
		if got := enabled(); !slices.Equal(got, want) {
			t.Errorf("coredns_plugin_enabled has %q, want %q", got, want)
		}
		wrong := corefile(n.Lab, strings.Replace(right, "cache 30", "cache 30\n    view v {\n        expr metadata('ofpunt/swich') == 'red'\n    }", 1))
		if err := os.WriteFile(s.path, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		s.log(`view at .*:21 reads the label ofpunt/swich`)
		check(ctx, t, n.red, resolver4, "db.internal.", dns.TypeA, "NOERROR 10.0.1.101")
		if got := enabled(); !slices.Equal(got, want) {
			t.Errorf("coredns_plugin_enabled has %q after a reload that failed, want %q", got, want)
		}
	})
	s.endWell()
}
