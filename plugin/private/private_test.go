// SPDX-License-Identifier: Apache-2.0

package private

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/test/pages"
)

// Results without an answer.
const (
	passed  = "passed on"
	resumed = "resumed"
)

type upstream struct {
	asked []dns.Question
	rrs   []dns.RR
}

func (*upstream) Name() string { return "forward" }

func (u *upstream) ServeDNS(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	u.asked = append(u.asked, r.Question[0])
	m := new(dns.Msg).SetReply(r)
	m.AuthenticatedData = true
	m.Answer = u.rrs
	return dns.RcodeSuccess, w.WriteMsg(m)
}

func handler(t *testing.T, corefile string) (*Handler, *upstream) {
	t.Helper()
	c := caddy.NewTestController("dns", corefile)
	c.ServerBlockKeys = []string{"."}
	h, err := parse(c)
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{}
	h.Next = u
	return h, u
}

// answered returns the handler's answer as
//
//	RCODE [flags] [= data of each record] [SOA owner TTL]
func answered(t *testing.T, ctx context.Context, h *Handler, u *upstream, qname, qtype string) string {
	t.Helper()
	before := len(u.asked)
	r := new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype])
	w := nonwriter.New(&test.ResponseWriter{})
	code, err := h.ServeDNS(ctx, w, r)
	switch m := w.Msg; {
	case err != nil:
		return err.Error()
	case len(u.asked) > before:
		return passed
	case m == nil && code == dns.RcodeSuccess:
		return resumed
	case m == nil:
		return dns.RcodeToString[code]
	default:
		if m.Id != r.Id || !m.Response || len(m.Question) != 1 || m.Question[0] != r.Question[0] {
			t.Errorf("%s %s: no answer to that: %v", qname, qtype, m)
		}
		return short(m)
	}
}

func short(m *dns.Msg) string {
	s := dns.RcodeToString[m.Rcode]
	if m.Authoritative {
		s += " aa"
	}
	for _, data := range testkit.Data(m.Answer) {
		s += " = " + data
	}
	for _, rr := range m.Ns {
		s += fmt.Sprintf(" %s %s %d", dns.TypeToString[rr.Header().Rrtype], rr.Header().Name, rr.Header().Ttl)
	}
	return s
}

// numbered returns the zones of A.B.0.0/16 for B from first to last.
func numbered(first, last, a int) (zones []string) {
	for b := first; b <= last; b++ {
		zones = append(zones, fmt.Sprintf("%d.%d.in-addr.arpa.", b, a))
	}
	return zones
}

var localZones = []struct {
	source string
	zones  []string
}{
	{"RFC 6303, 4.1", append([]string{"10.in-addr.arpa.", "168.192.in-addr.arpa."}, numbered(16, 31, 172)...)},
	{"RFC 6303, 4.2", []string{"0.in-addr.arpa.", "127.in-addr.arpa.", "254.169.in-addr.arpa.", "2.0.192.in-addr.arpa.", "100.51.198.in-addr.arpa.", "113.0.203.in-addr.arpa.", "255.255.255.255.in-addr.arpa."}},
	{"RFC 7793", numbered(64, 127, 100)},
	{"RFC 6303, 4.3", []string{
		"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.",
		"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.",
	}},
	{"RFC 6303, 4.4", []string{"d.f.ip6.arpa."}},
	{"RFC 6303, 4.5", []string{"8.e.f.ip6.arpa.", "9.e.f.ip6.arpa.", "a.e.f.ip6.arpa.", "b.e.f.ip6.arpa."}},
	{"RFC 6303, 4.6", []string{"8.b.d.0.1.0.0.2.ip6.arpa."}},
	{"RFC 6761", []string{"localhost.", "test.", "invalid."}},
	{"RFC 6762", []string{"local."}},
	{"RFC 7686", []string{"onion."}},
	{"RFC 9476", []string{"alt."}},
	{"RFC 8375", []string{"home.arpa."}},
	{"RFC 9462", []string{"resolver.arpa."}},
	{"RFC 9665", []string{"service.arpa."}},
	{"RFC 7535", []string{"empty.as112.arpa."}},
	{"ICANN", []string{"internal.", "mail."}},
	{"RFC 6762, appendix G", []string{"intranet.", "private.", "corp.", "home.", "lan."}},
	{"in use", []string{"localdomain.", "openstacklocal.", "novalocal."}},
}

func TestZones(t *testing.T) {
	h, u := handler(t, "private")
	served := map[string]bool{}
	for _, of := range localZones {
		for _, z := range of.zones {
			t.Run(of.source+" "+z, func(t *testing.T) {
				served[z] = true
				below := "NXDOMAIN aa SOA " + z + " 30"
				switch z {
				case "resolver.arpa.", "localhost.":
					below = "NOERROR aa SOA " + z + " 30"
				}
				noData := "NOERROR aa SOA " + z + " 30"
				for _, tt := range []struct{ qname, qtype, want string }{
					{z, "SOA", "NOERROR aa = " + z + " nobody.invalid. 1 3600 1200 604800 30"},
					{z, "NS", "NOERROR aa = " + z},
					{z, "TXT", noData},
					{z, "DNSKEY", noData},
					{z, "DS", passed},
					{"9." + z, "TXT", below},
					{"9." + z, "SOA", below},
					{"9." + z, "DS", below},
					{"b._dns-sd._udp." + z, "PTR", below},
					{"x" + z, "NS", passed}, // another label than the zone's
				} {
					if got := answered(t, context.Background(), h, u, tt.qname, tt.qtype); got != tt.want {
						t.Errorf("%s %s: %s, want %s", tt.qname, tt.qtype, got, tt.want)
					}
				}
			})
		}
	}
	for _, b := range builtins() {
		if !served[b.name] {
			t.Errorf("%s is served, but in no test", b.name)
		}
	}
}

func TestNames(t *testing.T) {
	const (
		loopback6Name = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."
		denied10      = "NXDOMAIN aa SOA 10.in-addr.arpa. 30"
		denied127     = "NXDOMAIN aa SOA 127.in-addr.arpa. 30"
		exists127     = "NOERROR aa SOA 127.in-addr.arpa. 30"
	)
	for _, tt := range []struct{ name, corefile, qname, qtype, want string }{
		{"an address", "", "5.0.0.10.in-addr.arpa.", "PTR", denied10},
		{"upper case", "", "5.0.0.10.IN-ADDR.ARPA.", "PTR", denied10},
		{"the apex in upper case", "", "10.IN-ADDR.ARPA.", "NS", "NOERROR aa = 10.in-addr.arpa."},
		{"ANY at the apex", "", "10.in-addr.arpa.", "ANY", "NOERROR aa = 10.in-addr.arpa. nobody.invalid. 1 3600 1200 604800 30 = 10.in-addr.arpa."},
		{"above a zone", "", "in-addr.arpa.", "SOA", passed},
		{"above several", "", "172.in-addr.arpa.", "A", passed},
		{"before the private network", "", "1.0.15.172.in-addr.arpa.", "PTR", passed},
		{"behind the private network", "", "1.0.32.172.in-addr.arpa.", "PTR", passed},
		{"before the shared network", "", "1.0.63.100.in-addr.arpa.", "PTR", passed},
		{"behind the shared network", "", "1.0.128.100.in-addr.arpa.", "PTR", passed},
		{"a public address", "", "8.8.8.8.in-addr.arpa.", "PTR", passed},
		{"a public IPv6 address", "", "8.8.8.8.0.6.8.4.1.0.0.2.ip6.arpa.", "PTR", passed},

		{"localhost", "", "localhost.", "A", "NOERROR aa = 127.0.0.1"},
		{"localhost in IPv6", "", "localhost.", "AAAA", "NOERROR aa = ::1"},
		{"below localhost", "", "www.LocalHost.", "A", "NOERROR aa = 127.0.0.1"},
		{"all of localhost", "", "a.localhost.", "ANY", "NOERROR aa = 127.0.0.1 = ::1"},
		{"another type of localhost", "", "a.localhost.", "MX", "NOERROR aa SOA localhost. 30"},
		{"127.0.0.1", "", "1.0.0.127.in-addr.arpa.", "PTR", "NOERROR aa = localhost."},
		{"127.0.0.1, another type", "", "1.0.0.127.in-addr.arpa.", "A", exists127},
		{"127.0.0.2", "", "2.0.0.127.in-addr.arpa.", "PTR", denied127},
		{"127.0.0", "", "0.0.127.in-addr.arpa.", "PTR", exists127},
		{"127.0", "", "0.127.in-addr.arpa.", "PTR", exists127},
		{"below 127.0.0.1", "", "x.1.0.0.127.in-addr.arpa.", "PTR", denied127},
		{"::1", "", loopback6Name, "PTR", "NOERROR aa = localhost."},
		{"a designated resolver", "", "_dns.resolver.arpa.", "SVCB", "NOERROR aa SOA resolver.arpa. 30"},

		{"a search domain", "", "www.example.com.lan.", "A", "NXDOMAIN aa SOA lan. 30"},
		{"a label like a suffix", "", "lan.example.com.", "A", passed},
		{"a dot in a label", "", `a\.lan.`, "NS", passed},
		{"not reserved", "", "www.example.", "A", passed},
		{"NAT64", "", "ipv4only.arpa.", "AAAA", passed},
		{"the root", "", ".", "A", passed},
		{"the root's servers", "", ".", "NS", passed},

		{"a label", "", "db.", "A", "NXDOMAIN aa SOA db. 30"},
		{"a label in upper case", "", "DB.", "AAAA", "NXDOMAIN aa SOA db. 30"},
		{"a label, another type", "", "db.", "HTTPS", "NXDOMAIN aa SOA db. 30"},
		{"a label's NS", "", "db.", "NS", passed},
		{"a label's SOA", "", "db.", "SOA", passed},
		{"a label's DS", "", "db.", "DS", passed},
		{"a label's DNSKEY", "", "db.", "DNSKEY", passed},
		{"a label with a dot", "", `foo\.com.`, "A", `NXDOMAIN aa SOA foo\.com. 30`},
		{"a top-level domain", "", "com.", "A", passed},
		{"a country", "", "ai.", "A", passed},
		{"a country with suffixes only", "", "ck.", "A", passed},
		{"a top-level domain in another script", "", "xn--p1ai.", "A", passed},
		{"arpa", "", "arpa.", "A", passed},
		{"two labels", "", "db.example.", "A", passed},
		{"a trust anchor's signal", "", "_ta-4f66.", "NULL", "NXDOMAIN aa SOA _ta-4f66. 30"},
		{"labels off", "single_labels off", "db.", "A", passed},
		{"labels off, a suffix", "single_labels off", "lan.", "A", "NOERROR aa SOA lan. 30"},

		{"excepted", "except corp", "a.corp.", "A", passed},
		{"excepted, the zone", "except corp", "corp.", "A", passed},
		{"excepted, another", "except corp", "a.lan.", "A", "NXDOMAIN aa SOA lan. 30"},
		{"excepted in a suffix", "except cluster.local", "api.default.svc.cluster.local.", "A", passed},
		{"excepted in a suffix, beside it", "except cluster.local", "printer.local.", "A", "NXDOMAIN aa SOA local. 30"},
		{"excepted network", "except 10.0.0.0/8", "5.0.0.10.in-addr.arpa.", "PTR", passed},
		{"excepted IPv6 network", "except fd00::/8", "5.0.d.f.ip6.arpa.", "PTR", passed},
		{"excepted with all below", "except in-addr.arpa", "5.0.0.10.in-addr.arpa.", "PTR", passed},
		{"excepted in upper case", "except CORP", "a.corp.", "A", passed},
		{"excepted part of a zone", "except 1.10.in-addr.arpa", "1.1.10.in-addr.arpa.", "PTR", passed},
		{"excepted part, the rest", "except 1.10.in-addr.arpa", "2.10.in-addr.arpa.", "PTR", denied10},
		{"excepted part, its DS", "except 1.10.in-addr.arpa", "1.10.in-addr.arpa.", "DS", "NOERROR aa SOA 10.in-addr.arpa. 30"},
		{"above an excepted part", "except 1.1.10.in-addr.arpa", "1.10.in-addr.arpa.", "PTR", "NOERROR aa SOA 10.in-addr.arpa. 30"},
		{"excepted label", "except db", "db.", "A", passed},
		{"a label above an excepted zone", "except corp.mine", "mine.", "A", passed},
		{"also", "also cloud.example", "a.cloud.example.", "A", "NXDOMAIN aa SOA cloud.example. 30"},
		{"also, DS", "also cloud.example", "cloud.example.", "DS", passed},
		{"also, above", "also cloud.example", "example.", "A", passed},
		{"also in a zone", "also a.b.lan", "x.a.b.lan.", "A", "NXDOMAIN aa SOA a.b.lan. 30"},
		{"also in a zone, DS", "also a.b.lan", "a.b.lan.", "DS", "NOERROR aa SOA lan. 30"},
		{"also in a zone, between", "also a.b.lan", "b.lan.", "A", "NOERROR aa SOA lan. 30"},
		{"also what is excepted around", "except 10.0.0.0/8\n also 10.1.0.0/16", "5.1.10.in-addr.arpa.", "PTR", "NXDOMAIN aa SOA 1.10.in-addr.arpa. 30"},
		{"also what is served", "also localhost", "localhost.", "A", "NOERROR aa = 127.0.0.1"},
		{"ttl", "ttl 10800", "a.test.", "A", "NXDOMAIN aa SOA test. 10800"},
		{"ttl of a label", "ttl 7", "db.", "A", "NXDOMAIN aa SOA db. 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, u := handler(t, "private {\n "+tt.corefile+"\n}")
			if got := answered(t, context.Background(), h, u, tt.qname, tt.qtype); got != tt.want {
				t.Errorf("%s %s: %s, want %s", tt.qname, tt.qtype, got, tt.want)
			}
		})
	}
}

// A denial's TTL is the smaller of the SOA's TTL and its last field (RFC 2308, section 5).
func TestTTL(t *testing.T) {
	h, _ := handler(t, "private {\n ttl 77\n}")
	for _, qname := range []string{"a.test.", "db."} {
		r := new(dns.Msg).SetQuestion(qname, dns.TypeA)
		w := nonwriter.New(&test.ResponseWriter{})
		if _, err := h.ServeDNS(context.Background(), w, r); err != nil {
			t.Fatal(err)
		}
		if soa, ok := w.Msg.Ns[0].(*dns.SOA); !ok || soa.Hdr.Ttl != 77 || soa.Minttl != 77 {
			t.Errorf("%s: %v", qname, w.Msg.Ns)
		}
	}
}

func TestZonesOfDirective(t *testing.T) {
	h, u := handler(t, "private lan")
	for qname, want := range map[string]string{"a.lan.": "NXDOMAIN aa SOA lan. 30", "a.corp.": passed, "db.": passed} {
		if got := answered(t, context.Background(), h, u, qname, "A"); got != want {
			t.Errorf("%s: %s, want %s", qname, got, want)
		}
	}
}

func TestClass(t *testing.T) {
	h, u := handler(t, "private")
	for qname, want := range map[string]int{"a.lan.": dns.RcodeRefused, "version.bind.": dns.RcodeSuccess} {
		r := new(dns.Msg).SetQuestion(qname, dns.TypeTXT)
		r.Question[0].Qclass = dns.ClassCHAOS
		w := nonwriter.New(&test.ResponseWriter{})
		if code, err := h.ServeDNS(context.Background(), w, r); code != want || err != nil {
			t.Errorf("%s: %d, %v", qname, code, err)
		}
	}
	if len(u.asked) != 1 || u.asked[0].Name != "version.bind." {
		t.Errorf("asked %v", u.asked)
	}
}

type resumer struct {
	times int
	err   error
}

func (r *resumer) Resume() error {
	r.times++
	return r.err
}

// In hijack mode a server of the guest's network may have the name.
func TestHijack(t *testing.T) {
	const denied = "NXDOMAIN aa SOA 10.in-addr.arpa. 30"
	gone := errors.New("gone")
	for _, tt := range []struct {
		name   string
		origin *origin.Origin
		held   *resumer
		want   string
	}{
		{"service mode", &origin.Origin{}, &resumer{}, denied},
		{"hijack mode", &origin.Origin{Hijacked: true}, &resumer{}, resumed},
		{"hijack mode, gone", &origin.Origin{Hijacked: true}, &resumer{err: gone}, "plugin/private: gone"},
		{"hijack mode, not held", &origin.Origin{Hijacked: true}, nil, denied},
		{"hijack mode, a lookup", &origin.Origin{Hijacked: true, Lookup: true}, nil, "NOERROR"},
		{"from a socket", nil, nil, denied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.origin != nil {
				if tt.held != nil {
					tt.origin.Resumer = tt.held
				}
				ctx = origin.NewContext(ctx, tt.origin)
			}
			h, u := handler(t, "private")
			e := explain.New()
			defer e.End()
			x := e.Context(ctx)
			if got := answered(t, x, h, u, "5.0.0.10.in-addr.arpa.", "PTR"); got != tt.want {
				t.Errorf("explained: %s, want %s", got, tt.want)
			}
			if r := e.Report(); (len(r.Findings) > 0) != (tt.want == denied) || !slices.Equal(r.Notes, []string{"a private name (reverse)"}) {
				t.Errorf("found %+v, notes %q, where the guest gets %s", r.Findings, r.Notes, tt.want)
			}
			if got := answered(t, ctx, h, u, "5.0.0.10.in-addr.arpa.", "PTR"); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := answered(t, ctx, h, u, "www.example.", "A"); got != passed {
				t.Errorf("an outside name: %s", got)
			}
		})
	}
}

func TestSetup(t *testing.T) {
	// Where another package refuses, err is in its error.
	const own = "in testdata/messages.golden"
	refusals := ""
	for _, tt := range []struct{ input, err string }{
		{"private", ""},
		{"private example.org 10.0.0.0/8", ""},
		{"private {\n except corp 10.0.0.0/8 fd00::/8\n also cloud.example\n single_labels off\n ttl 0\n rebind_protection on except corp.example\n}", ""},
		{"private {\n rebind_protection off\n}", ""},
		{"private a..b", `:1 .*"a\.\.b"`},
		{"private\nprivate", `:2 .*private`},
		{"private {\n except\n}", own},
		{"private {\n also\n}", own},
		{"private {\n except .\n}", own},
		{"private {\n except *.corp\n}", own},
		{"private {\n except 10.0.0.0/33\n}", own},
		{"private 10.0.0.0/33", own},
		{"private {\n also .\n}", own},
		{"private {\n also a..b\n}", `:2 .* also: "a\.\.b"`},
		{"private {\n except corp\n also lan CORP\n}", own},
		{"private {\n single_labels\n}", `:2 .* single_labels: \[\]: .*on or off`},
		{"private {\n single_labels yes\n}", `:2 .* single_labels: "yes": .*on or off`},
		{"private {\n ttl forever\n}", `:2 .* ttl: "forever"`},
		{"private {\n rebind_protection 1\n}", own},
		{"private {\n rebind_protection\n}", own},
		{"private {\n rebind_protection on except\n}", own},
		{"private {\n rebind_protection off except corp.example\n}", own},
		{"private {\n rebind_protection on except .\n}", own},
		{"private {\n zones 1\n}", `:2 .*"zones".*\[also `},
	} {
		c := caddy.NewTestController("dns", tt.input)
		c.ServerBlockKeys = []string{"."}
		switch err := setup(c); {
		case tt.err == "" && err != nil:
			t.Errorf("%q: %v", tt.input, err)
		case tt.err == own:
			refusals += fmt.Sprintf("%q: %v\n", tt.input, err)
		case tt.err != "" && (err == nil || !regexp.MustCompile("^plugin/private: Testfile"+tt.err).MatchString(err.Error())):
			t.Errorf("%q: %v, want %s", tt.input, err, tt.err)
		}
	}
	golden.Check(t, refusals)
}

// The README lists each zone; of ranges the first and the last.
func TestDocumentedZones(t *testing.T) {
	section, _ := pages.Section(t, "../..", "plugin/private/README.md#zones", "")
	var listed []string
	for line := range strings.Lines(section) {
		cell := strings.SplitN(line, "|", 3)
		if len(cell) < 3 || cell[0] != "" {
			continue // no row of a table
		}
		for _, m := range regexp.MustCompile("`([a-z0-9.-]+)`").FindAllStringSubmatch(cell[1], -1) {
			listed = append(listed, m[1]+".")
		}
	}
	between := slices.Concat(numbered(17, 30, 172), numbered(65, 126, 100))
	for _, b := range builtins() {
		if !slices.Contains(listed, b.name) && !slices.Contains(between, b.name) {
			t.Errorf("%s is not listed", b.name)
		}
	}
	if len(listed) != len(builtins())-len(between) {
		t.Errorf("%d zones are listed, %d are served and not between two", len(listed), len(builtins())-len(between))
	}
}

var _ plugin.Handler = (*Handler)(nil)

func BenchmarkServeDNS(b *testing.B) {
	h := &Handler{Zones: []string{"."}, singleLabels: true, ttl: 30, table: newTable(nil, nil, 30)}
	h.Next = test.NextHandler(dns.RcodeSuccess, nil)
	for _, qname := range []string{"www.example.org.", "9.0.0.10.in-addr.arpa.", "db."} {
		b.Run(qname, func(b *testing.B) {
			w, r := &test.ResponseWriter{}, new(dns.Msg).SetQuestion(qname, dns.TypeA)
			b.ReportAllocs()
			for b.Loop() {
				if code, err := h.ServeDNS(b.Context(), w, r); code != dns.RcodeSuccess || err != nil {
					b.Fatal(code, err)
				}
			}
		})
	}
}
