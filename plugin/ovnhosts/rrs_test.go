// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// openRRs is open with a DNS row on red that has records of all types, and one on blue.
func openRRs(t testing.TB, input string) *Handler {
	t.Helper()
	s := startNorthbound(t)
	on := func(name, row string) object {
		return object{
			"op": "mutate", "table": "Logical_Switch", "where": []any{[]any{"name", "==", name}},
			"mutations": []any{[]any{"dns_records", "insert", named(row)}},
		}
	}
	s.Transact(t, "OVN_Northbound",
		insert("DNS", "more", object{"external_ids": pairs(
			"dns-cname/www.example.org", "VM1.example.org",
			"dns-cname/chain.example.org", "www.example.org",
			"dns-cname/out.example.org", "www.outside.test",
			"dns-cname/chain-out.example.org", "out.example.org",
			"dns-cname/missing-target.example.org", "missing.example.org",
			"dns-cname/above-target.example.org", "apps.internal",
			"dns-cname/other-tenant.example.org", "vm3.example.org",
			"dns-cname/apex-target.example.org", "example.org",
			"dns-cname/loop1.example.org", "loop2.example.org",
			"dns-cname/loop2.example.org", "loop1.example.org",
			"dns-cname/self.example.org", "self.example.org",
			"dns-cname/*.loop.example.org", "x.y.loop.example.org",
			"dns-cname/forwarded.example.org", "www.corp.example.org",
			"dns-cname/again.example.org", "again.outside.test",
			"dns-cname/refused.example.org", "refused.test",
			"dns-cname/failed.example.org", "fails.outside.test",
			"dns-cname/gone.example.org", "gone.outside.test",
			"dns-cname/vm2.example.org", "vm1.example.org",
			"dns-cname/example.org", "vm1.example.org",
			"dns-cname/apex.test", "vm1.example.org",
			"dns-cname/8.example.org", "vm1.example.org",
			"dns-cname/7.example.org", "8.example.org",
			"dns-cname/6.example.org", "7.example.org",
			"dns-cname/5.example.org", "6.example.org",
			"dns-cname/4.example.org", "5.example.org",
			"dns-cname/3.example.org", "4.example.org",
			"dns-cname/2.example.org", "3.example.org",
			"dns-cname/1.example.org", "2.example.org",
			"dns-cname/0.example.org", "1.example.org",
			"dns-mx/example.org", "10 vm1.example.org\n20 mx.outside.test\n30 VM1.example.org",
			"dns-srv/_sip._tcp.example.org", "10 5 5060 vm2.example.org",
			"dns-txt/vm1.example.org", `"v=spf1 mx -all"`+"\nhello",
			"dns-txt/*.apps.internal", "wild",
			"dns-txt/12.0.0.10.in-addr.arpa", "ptr",
		)}),
		on("red", "more"),
		insert("DNS", "blue", object{"external_ids": pairs("dns-txt/vm1.example.org", "blue", "dns-txt/blue.example.org", "blue")}),
		on("blue", "blue"),
	)
	h := openFrom(t, s, "red", " domain example.org\n ttl 42\n"+input)
	awaitRead(t, h)
	return h
}

// chain returns a context that lookups go through a server with, of which the handler has
// the only block.
func chain(t testing.TB, ctx context.Context, h *Handler) context.Context {
	t.Helper()
	config := &dnsserver.Config{Zone: ".", Transport: "dns", Port: "53", ListenHosts: []string{""}}
	config.AddPlugin(func(plugin.Handler) plugin.Handler { return h })
	server, err := dnsserver.NewServer("dns://:53", []*dnsserver.Config{config})
	if err != nil {
		t.Fatal(err)
	}
	ctx = context.WithValue(ctx, dnsserver.Key{}, server)
	return context.WithValue(ctx, dnsserver.LoopKey{}, 0)
}

// beyond is the next plugin, which has names of outside.test, and forwards corp.example.org.
func beyond(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg).SetReply(r)
	switch q := r.Question[0]; {
	case q.Name == "www.outside.test." && q.Qtype == dns.TypeA:
		m.Answer = []dns.RR{test.CNAME("www.outside.test. 300 IN CNAME web.outside.test."), test.A("web.outside.test. 300 IN A 192.0.2.1")}
	case q.Name == "www.outside.test.":
		m.Ns = []dns.RR{test.SOA("outside.test. 300 IN SOA ns.outside.test. mail.outside.test. 1 1800 900 604800 300")}
	case q.Name == "again.outside.test.": // a rewrite, say
		m.Answer = []dns.RR{test.CNAME("again.outside.test. 300 IN CNAME vm1.example.org.")}
	case q.Name == "www.corp.example.org." && q.Qtype == dns.TypeA: // a server of the network
		m.Answer = []dns.RR{test.A("www.corp.example.org. 300 IN A 192.0.2.2")}
	case q.Name == "fails.outside.test.":
		return dns.RcodeServerFailure, nil
	case strings.HasSuffix(q.Name, "outside.test."):
		m.Rcode = dns.RcodeNameError
		m.Ns = []dns.RR{test.SOA("outside.test. 300 IN SOA ns.outside.test. mail.outside.test. 1 1800 900 604800 300")}
	default:
		return dns.RcodeRefused, nil
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// listed is a message, a line each for status and flags, and for each record.
func listed(code int, m *dns.Msg) (lines []string) {
	if m == nil {
		return []string{dns.RcodeToString[code]}
	}
	status := dns.RcodeToString[m.Rcode]
	if m.Authoritative {
		status += " aa"
	}
	lines = append(lines, status)
	for _, section := range []struct {
		name string
		rrs  []dns.RR
	}{{"", m.Answer}, {"ns ", m.Ns}, {"extra ", m.Extra}} {
		for _, rr := range section.rrs {
			text := strings.ReplaceAll(rr.String(), "\t", " ")
			if soa, ok := rr.(*dns.SOA); ok {
				text = soa.Hdr.Name + " SOA"
			}
			lines = append(lines, section.name+text)
		}
	}
	return lines
}

func TestServeRRs(t *testing.T) {
	const (
		www      = "www.example.org. 42 IN CNAME VM1.example.org."
		vm1      = "VM1.example.org. 42 IN A 10.0.0.11"
		out      = "out.example.org. 42 IN CNAME www.outside.test."
		ownSOA   = "ns example.org. SOA"
		theirSOA = "ns outside.test. SOA"
	)
	tests := []struct {
		name, qname, qtype string
		want               []string
		// noRD is what a query without RD gets, and alone one where nothing falls through; nil
		// for the same.
		noRD, alone []string
	}{
		{"TXT beside an address", "VM1.example.org.", "TXT", []string{`NOERROR aa`, `VM1.example.org. 42 IN TXT "v=spf1 mx -all"`, `VM1.example.org. 42 IN TXT "hello"`}, nil, nil},
		{"the address beside TXT", "vm1.example.org.", "A", []string{`NOERROR aa`, `vm1.example.org. 42 IN A 10.0.0.11`}, nil, nil},
		{"no MX beside TXT", "vm1.example.org.", "MX", []string{`NOERROR aa`, ownSOA}, nil, nil},
		{"ANY", "vm1.example.org.", "ANY", []string{
			`NOERROR aa`, `vm1.example.org. 42 IN A 10.0.0.11`, `vm1.example.org. 42 IN AAAA fd00::11`,
			`vm1.example.org. 42 IN TXT "v=spf1 mx -all"`, `vm1.example.org. 42 IN TXT "hello"`,
		}, nil, nil},
		{"MX, the targets once each", "example.org.", "MX", []string{
			`NOERROR aa`, `example.org. 42 IN MX 10 vm1.example.org.`, `example.org. 42 IN MX 20 mx.outside.test.`, `example.org. 42 IN MX 30 VM1.example.org.`,
			`extra vm1.example.org. 42 IN A 10.0.0.11`, `extra vm1.example.org. 42 IN AAAA fd00::11`,
		}, nil, nil},
		{"SRV", "_SIP._tcp.example.org.", "SRV", []string{
			`NOERROR aa`, `_SIP._tcp.example.org. 42 IN SRV 10 5 5060 vm2.example.org.`, `extra vm2.example.org. 42 IN A 10.0.0.12`,
		}, nil, nil},
		{"a name above", "_tcp.example.org.", "SRV", []string{`NOERROR aa`, ownSOA}, nil, nil},
		{"a wildcard that has an address elsewhere", "Shop.apps.internal.", "TXT", []string{`NOERROR aa`, `Shop.apps.internal. 42 IN TXT "wild"`}, nil, nil},
		{"its address", "Shop.apps.internal.", "A", []string{`NOERROR aa`, `Shop.apps.internal. 42 IN A 10.0.0.24`}, nil, nil},
		{"TXT of an address", "12.0.0.10.in-addr.arpa.", "TXT", []string{`NOERROR aa`, `12.0.0.10.in-addr.arpa. 42 IN TXT "ptr"`}, nil, nil},
		{"PTR beside it", "12.0.0.10.in-addr.arpa.", "PTR", []string{`NOERROR aa`, `12.0.0.10.in-addr.arpa. 42 IN PTR vm2.example.org.`}, nil, nil},
		{"of another tenant", "blue.example.org.", "TXT", []string{`NXDOMAIN aa`, ownSOA}, nil, nil},

		{"alias", "www.example.org.", "A", []string{`NOERROR aa`, www, vm1}, nil, nil},
		{"alias, the question's case", "WWW.example.org.", "A", []string{`NOERROR aa`, "WWW" + www[3:], vm1}, nil, nil},
		{"alias, its own type", "www.example.org.", "CNAME", []string{`NOERROR aa`, www}, nil, nil},
		{"alias, ANY", "www.example.org.", "ANY", []string{`NOERROR aa`, www}, nil, nil},
		{"alias, TXT", "www.example.org.", "TXT", []string{`NOERROR aa`, www, `VM1.example.org. 42 IN TXT "v=spf1 mx -all"`, `VM1.example.org. 42 IN TXT "hello"`}, nil, nil},
		{"alias, a type the target lacks", "www.example.org.", "MX", []string{`NOERROR aa`, www, ownSOA}, nil, nil},
		{"two aliases", "chain.example.org.", "A", []string{`NOERROR aa`, `chain.example.org. 42 IN CNAME www.example.org.`, www, vm1}, nil, nil},
		{"alias of the apex, MX", "apex-target.example.org.", "MX", []string{
			`NOERROR aa`, `apex-target.example.org. 42 IN CNAME example.org.`, `example.org. 42 IN MX 10 vm1.example.org.`, `example.org. 42 IN MX 20 mx.outside.test.`, `example.org. 42 IN MX 30 VM1.example.org.`,
			`extra vm1.example.org. 42 IN A 10.0.0.11`, `extra vm1.example.org. 42 IN AAAA fd00::11`,
		}, nil, nil},
		{"alias of a name that is not there", "missing-target.example.org.", "A", []string{`NXDOMAIN aa`, `missing-target.example.org. 42 IN CNAME missing.example.org.`, ownSOA}, nil, nil},
		{"alias of a name that only has names below it", "above-target.example.org.", "A", []string{`NOERROR aa`, `above-target.example.org. 42 IN CNAME apps.internal.`, `ns internal. SOA`}, nil, nil},
		{"alias of another tenant's name", "other-tenant.example.org.", "A", []string{`NXDOMAIN aa`, `other-tenant.example.org. 42 IN CNAME vm3.example.org.`, ownSOA}, nil, nil},
		{"alias beside an address", "vm2.example.org.", "A", []string{`NOERROR aa`, `vm2.example.org. 42 IN A 10.0.0.12`}, nil, nil},
		{"alias beside an address, CNAME", "vm2.example.org.", "CNAME", []string{`NOERROR aa`, ownSOA}, nil, nil},
		{"alias at the apex", "example.org.", "A", []string{`NOERROR aa`, ownSOA}, nil, nil},
		{"eight aliases", "1.example.org.", "A", []string{
			`NOERROR aa`, "1.example.org. 42 IN CNAME 2.example.org.", "2.example.org. 42 IN CNAME 3.example.org.", "3.example.org. 42 IN CNAME 4.example.org.",
			"4.example.org. 42 IN CNAME 5.example.org.", "5.example.org. 42 IN CNAME 6.example.org.", "6.example.org. 42 IN CNAME 7.example.org.",
			"7.example.org. 42 IN CNAME 8.example.org.", "8.example.org. 42 IN CNAME vm1.example.org.", "vm1.example.org. 42 IN A 10.0.0.11",
		}, nil, nil},
		{"nine aliases", "0.example.org.", "A", []string{"SERVFAIL"}, nil, nil},
		{"a loop", "loop1.example.org.", "A", []string{"SERVFAIL"}, nil, nil},
		{"a loop, CNAME", "loop1.example.org.", "CNAME", []string{`NOERROR aa`, `loop1.example.org. 42 IN CNAME loop2.example.org.`}, nil, nil},
		{"itself", "self.example.org.", "AAAA", []string{"SERVFAIL"}, nil, nil},
		{"a wildcard of itself", "x.loop.example.org.", "A", []string{"SERVFAIL"}, nil, nil},

		{
			"alias of an outside name", "out.example.org.", "A",
			[]string{`NOERROR aa`, out, "www.outside.test. 300 IN CNAME web.outside.test.", "web.outside.test. 300 IN A 192.0.2.1"},
			[]string{`NOERROR aa`, out},
			[]string{`NXDOMAIN aa`, out, "ns test. SOA"},
		},
		{
			"two aliases to an outside name", "chain-out.example.org.", "A",
			[]string{`NOERROR aa`, "chain-out.example.org. 42 IN CNAME out.example.org.", out, "www.outside.test. 300 IN CNAME web.outside.test.", "web.outside.test. 300 IN A 192.0.2.1"},
			[]string{`NOERROR aa`, "chain-out.example.org. 42 IN CNAME out.example.org.", out},
			[]string{`NXDOMAIN aa`, "chain-out.example.org. 42 IN CNAME out.example.org.", out, "ns test. SOA"},
		},
		{
			"an outside name without the type", "out.example.org.", "AAAA",
			[]string{`NOERROR aa`, out, theirSOA}, []string{`NOERROR aa`, out}, []string{`NXDOMAIN aa`, out, "ns test. SOA"},
		},
		{
			"an outside name that is not there", "gone.example.org.", "A",
			[]string{`NXDOMAIN aa`, "gone.example.org. 42 IN CNAME gone.outside.test.", theirSOA},
			[]string{`NOERROR aa`, "gone.example.org. 42 IN CNAME gone.outside.test."},
			[]string{`NXDOMAIN aa`, "gone.example.org. 42 IN CNAME gone.outside.test.", "ns test. SOA"},
		},
		{
			"an outside name that nobody can tell of", "failed.example.org.", "A",
			[]string{"SERVFAIL"}, []string{`NOERROR aa`, "failed.example.org. 42 IN CNAME fails.outside.test."},
			[]string{`NXDOMAIN aa`, "failed.example.org. 42 IN CNAME fails.outside.test.", "ns test. SOA"},
		},
		{
			"an outside name that nobody serves", "refused.example.org.", "A",
			[]string{`NOERROR aa`, "refused.example.org. 42 IN CNAME refused.test."}, nil,
			[]string{`NXDOMAIN aa`, "refused.example.org. 42 IN CNAME refused.test.", "ns test. SOA"},
		},
		{
			"a name that the network forwards", "forwarded.example.org.", "A",
			[]string{`NOERROR aa`, "forwarded.example.org. 42 IN CNAME www.corp.example.org.", "www.corp.example.org. 300 IN A 192.0.2.2"},
			[]string{`NOERROR aa`, "forwarded.example.org. 42 IN CNAME www.corp.example.org."}, nil,
		},
	}
	through, alone := openRRs(t, " fallthrough"), openRRs(t, "")
	for _, h := range []*Handler{through, alone} {
		h.Next, h.forwarder = plugin.HandlerFunc(beyond), forwarding{"corp.example.org.", "red"}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, rd := range []bool{true, false} {
				for _, h := range []*Handler{through, alone} {
					want, how := tt.want, "fallthrough"
					switch {
					case h == alone && tt.alone != nil:
						want, how = tt.alone, "no fallthrough"
					case !rd && tt.noRD != nil:
						want = tt.noRD
					}
					for _, punted := range []bool{false, true} {
						ctx := t.Context()
						if punted {
							ctx = origin.NewContext(ctx, &origin.Origin{Network: h.source.Snapshot().NetworkByName("red").ID, Port: "red-vm1"})
						}
						r := new(dns.Msg).SetQuestion(tt.qname, dns.StringToType[tt.qtype])
						r.RecursionDesired = rd
						w := dnstest.NewRecorder(&test.ResponseWriter{})
						code, err := h.ServeDNS(chain(t, ctx, h), w, r)
						if got := listed(code, w.Msg); err != nil || !slices.Equal(got, want) {
							t.Errorf("%s, RD %v, punted %v: %v\n%s\nwant\n%s", how, rd, punted, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
						}
						if w.Msg != nil {
							checkSent(t, r, w.Msg)
						}
					}
				}
			}
		})
	}
}

// checkSent checks that a message can be sent, and is to the question.
func checkSent(t *testing.T, r, m *dns.Msg) {
	t.Helper()
	b, err := m.Pack()
	if err == nil {
		err = new(dns.Msg).Unpack(b)
	}
	if err != nil || m.Id != r.Id || len(m.Question) != 1 || m.Question[0] != r.Question[0] {
		t.Errorf("%v is answered by %v: %v", r.Question, m, err)
	}
}

// While it is not read what routers join to the asker's network, it is not denied that a target
// exists.
func TestAliasUnread(t *testing.T) {
	h := openRRs(t, "")
	h.routers = true // and the source is not asked for it
	for qname, want := range map[string]string{"www.example.org.": "NOERROR aa", "other-tenant.example.org.": "SERVFAIL"} {
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, _ := h.ServeDNS(chain(t, t.Context(), h), w, new(dns.Msg).SetQuestion(qname, dns.TypeA))
		if got := listed(code, w.Msg)[0]; got != want {
			t.Errorf("%s: %s, want %s", qname, got, want)
		}
	}
}

// With the router scope aliases lead to names of other switches, and the first switch that
// knows a name answers as a whole.
func TestAliasInRouterScope(t *testing.T) {
	h := openRRs(t, " scope router")
	for _, tt := range []struct{ qname, qtype, want string }{
		{"other-tenant.example.org.", "A", "vm3.example.org. 42 IN A 10.0.1.13"},
		{"blue.example.org.", "TXT", `blue.example.org. 42 IN TXT "blue"`},
		{"vm1.example.org.", "TXT", `vm1.example.org. 42 IN TXT "hello"`},
	} {
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := h.ServeDNS(chain(t, t.Context(), h), w, new(dns.Msg).SetQuestion(tt.qname, dns.StringToType[tt.qtype]))
		if got := listed(code, w.Msg); err != nil || got[len(got)-1] != tt.want {
			t.Errorf("%s %s: %v\n%s", tt.qname, tt.qtype, err, strings.Join(got, "\n"))
		}
	}
}

// The apex of the asker's domain is no alias, and the same name is one for others.
func TestAliasAtApex(t *testing.T) {
	h := openRRs(t, "")
	for _, tt := range []struct{ domain, qtype, want string }{
		{"example.org.", "A", "NOERROR aa|apex.test. 42 IN CNAME vm1.example.org.|vm1.example.org. 42 IN A 10.0.0.11"},
		{"apex.test.", "A", "NOERROR aa|ns apex.test. SOA"},
		{"apex.test.", "CNAME", "NOERROR aa|ns apex.test. SOA"},
		{"apex.test.", "SOA", "NOERROR aa|apex.test. SOA"},
	} {
		h.Domain = tt.domain
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := h.ServeDNS(chain(t, t.Context(), h), w, new(dns.Msg).SetQuestion("apex.test.", dns.StringToType[tt.qtype]))
		if got := strings.Join(listed(code, w.Msg), "|"); err != nil || got != tt.want {
			t.Errorf("domain %s: %s: %v %s", tt.domain, tt.qtype, err, got)
		}
	}
}

// Aliases that lead from one lookup to the next come to an end.
func TestAliasLookups(t *testing.T) {
	h := openRRs(t, " fallthrough")
	lookups := 0
	h.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		lookups++
		r = r.Copy()
		r.Question[0].Name = "out.example.org."
		return h.ServeDNS(ctx, w, r)
	})
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	code, err := h.ServeDNS(chain(t, t.Context(), h), w, new(dns.Msg).SetQuestion("out.example.org.", dns.TypeA))
	if code != dns.RcodeServerFailure || err != nil || lookups != 8 {
		t.Errorf("%s, %v after %d lookups", dns.RcodeToString[code], err, lookups)
	}
}

// The addresses of targets are left out where an answer has no room for them.
func TestTargetsFit(t *testing.T) {
	s := startNorthbound(t)
	var kv, hosts []string
	for i := range 40 {
		name := strings.Repeat("x", 20) + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ".example.org"
		kv = append(kv, "10 "+name)
		hosts = append(hosts, name, "10.0.0.77")
	}
	s.Transact(t, "OVN_Northbound",
		insert("DNS", "mail", object{"records": pairs(hosts...), "external_ids": pairs("dns-mx/few", strings.Join(kv[:16], "\n"), "dns-mx/many", strings.Join(kv, "\n"))}),
		object{"op": "mutate", "table": "Logical_Switch", "where": []any{[]any{"name", "==", "red"}}, "mutations": []any{[]any{"dns_records", "insert", named("mail")}}})
	h := openFrom(t, s, "red", "")
	awaitRead(t, h)
	for _, tt := range []struct {
		name, qname string
		size        uint16 // of EDNS, 0 for none
		tcp         bool
		extra       int
	}{
		{"no room without EDNS", "few.", 0, false, 0},
		{"some", "few.", 1232, false, 5},
		{"no more than a datagram has", "few.", 4096, false, 5},
		{"all over TCP", "many.", 0, true, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := new(dns.Msg).SetQuestion(tt.qname, dns.TypeMX)
			if tt.size > 0 {
				r.SetEdns0(tt.size, false)
			}
			w := dnstest.NewRecorder(&test.ResponseWriter{TCP: tt.tcp})
			if _, err := h.ServeDNS(t.Context(), w, r); err != nil {
				t.Fatal(err)
			}
			if _, udp := w.RemoteAddr().(*net.UDPAddr); udp == tt.tcp {
				t.Fatalf("asked from %v", w.RemoteAddr())
			}
			if got := len(w.Msg.Extra); got != tt.extra || tt.size > 0 && w.Msg.Len() > maxUDP {
				t.Errorf("%d records in %d bytes", got, w.Msg.Len())
			}
		})
	}
}

// maxUDP is how large an answer over UDP may be.
const maxUDP = 1232
