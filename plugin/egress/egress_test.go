// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
)

// upstream is the next plugin. It answers each question with records, and notes the names.
type upstream struct {
	asked   []string
	records []string
}

// Name implements plugin.Handler.
func (*upstream) Name() string { return "upstream" }

// ServeDNS implements plugin.Handler.
func (u *upstream) ServeDNS(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	u.asked = append(u.asked, r.Question[0].Name)
	m := new(dns.Msg).SetReply(r)
	for _, text := range u.records {
		m.Answer = append(m.Answer, test.A(text))
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// newHandler returns the handler of a Corefile, before an upstream.
func newHandler(t testing.TB, text string) (*Handler, *upstream) {
	t.Helper()
	c := caddy.NewTestController("dns", text)
	c.ServerBlockKeys = []string{"."}
	h, err := parse(c)
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{}
	h.Next = u
	return h, u
}

// guest is the origin of a guest.
func guest(port, sw string) *origin.Origin {
	return &origin.Origin{Bridge: "br-int", InPort: 1, Port: port, Switch: sw}
}

// ask returns the answer to a guest.
func ask(t testing.TB, ctx context.Context, h *Handler, r *dns.Msg) *dns.Msg {
	t.Helper()
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
		t.Fatal(code, err)
	}
	return w.Msg
}

const somePolicies = `
	policy ofpunt/port vm1 {
		allow pypi.org *.pypi.org:443/tcp
		allow 10.0.0.0/8
	}
	policy ofpunt/switch red {
		allow example.org
	}
	policy ofpunt/port addresses {
		allow 192.0.2.0/24
	}
`

func TestStrict(t *testing.T) {
	for _, tt := range []struct {
		what, name string
		qtype      uint16
		want       string
	}{
		{"allowed", "pypi.org.", dns.TypeA, "asked"},
		{"allowed by the policy of the switch", "example.org.", dns.TypeA, "asked"},
		{"a wildcard", "a.b.pypi.org.", dns.TypeHTTPS, "asked"},
		{"in another case", "PyPi.oRG.", dns.TypeA, "asked"},
		{"any type of an allowed name", "pypi.org.", dns.TypeANY, "asked"},
		{"another name", "evil.example.", dns.TypeA, "NXDOMAIN SOA example. 5"},
		{"another name in another case", "EVIL.example.", dns.TypeA, "NXDOMAIN SOA example. 5"},
		{"TXT", "data.evil.example.", dns.TypeTXT, "NXDOMAIN SOA example. 5"},
		{"ANY", "data.evil.example.", dns.TypeANY, "NXDOMAIN SOA example. 5"},
		{"a type without a name", "data.evil.example.", 65280, "NXDOMAIN SOA example. 5"},
		{"PTR of an address that is allowed", "1.0.0.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN SOA in-addr.arpa. 5"},
		{"below an exact entry", "www.example.org.", dns.TypeA, "NXDOMAIN SOA org. 5"},
		{"above an entry", "org.", dns.TypeDS, "NOERROR SOA org. 5"},
		{"the root", ".", dns.TypeNS, "NOERROR"},
		{"an escaped dot", `a\.pypi.org.`, dns.TypeA, "NXDOMAIN SOA org. 5"},
		{"a long name", strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 53) + ".example.", dns.TypeA, "NXDOMAIN SOA example. 5"},
		{"a long allowed name", strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 52) + ".pypi.org.", dns.TypeA, "asked"},
	} {
		for _, class := range []uint16{dns.ClassINET, dns.ClassCHAOS, dns.ClassANY} {
			t.Run(tt.what+" "+dns.Class(class).String(), func(t *testing.T) {
				h, u := newHandler(t, "egress {\n strict on"+somePolicies+"}")
				r := new(dns.Msg).SetQuestion(tt.name, tt.qtype)
				r.Question[0].Qclass = class
				m := ask(t, origin.NewContext(t.Context(), guest("vm1", "red")), h, r)
				got := dns.RcodeToString[m.Rcode]
				if len(m.Ns) > 0 {
					got += fmt.Sprintf(" SOA %s %d", m.Ns[0].Header().Name, m.Ns[0].(*dns.SOA).Minttl)
				}
				if len(u.asked) > 0 {
					got = "asked"
				}
				if got != tt.want || m.Question[0] != r.Question[0] || m.Authoritative || m.IsEdns0() != nil {
					t.Errorf("%s, want %s: %v", got, tt.want, m)
				}
			})
		}
	}
}

// Guests without a policy, and clients of a socket, get what the plugins behind say.
func TestUntouched(t *testing.T) {
	const evil = "evil.example."
	for _, tt := range []struct {
		what, zones string
		origin      *origin.Origin
		want        bool
	}{
		{"a guest with a policy", "", guest("vm1", "blue"), false},
		{"a guest by its switch", "", guest("vm7", "red"), false},
		{"a guest whose policy has addresses alone", "", guest("addresses", "blue"), false},
		{"another guest", "", guest("vm2", "blue"), true},
		{"a guest of an unknown port", "", guest("", ""), true},
		{"a socket", "", nil, true},
		{"in the zone", "example", guest("vm1", "red"), false},
		{"in another zone", "example.org", guest("vm1", "red"), true},
		{"hijack mode", "", &origin.Origin{Port: "vm1", Hijacked: true}, false},
	} {
		h, u := newHandler(t, "egress "+tt.zones+" {\n strict on"+somePolicies+"}")
		ctx := t.Context()
		if tt.origin != nil {
			ctx = origin.NewContext(ctx, tt.origin)
		}
		ask(t, ctx, h, new(dns.Msg).SetQuestion(evil, dns.TypeA))
		if got := len(u.asked) > 0; got != tt.want {
			t.Errorf("%s: asked: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// A client with EDNS learns that the answer is filtered (RFC 8914, section 4.18).
func TestExtendedError(t *testing.T) {
	h, _ := newHandler(t, "egress {\n strict on"+somePolicies+"}")
	for _, name := range []string{"evil.example.", "org.", "."} {
		m := ask(t, origin.NewContext(t.Context(), guest("vm1", "")), h, new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, true))
		o := m.IsEdns0()
		if o == nil || len(o.Option) != 1 || o.UDPSize() != 1232 {
			t.Fatal(m)
		}
		if e, ok := o.Option[0].(*dns.EDNS0_EDE); !ok || e.InfoCode != 17 {
			t.Errorf("%s: %v", name, o)
		}
	}
}

// The name that the guest has asked counts, and not the names that plugins look up for it: these are judged only if a plugin
// above looks them up.
func TestLookups(t *testing.T) {
	h, u := newHandler(t, "egress {\n strict on"+somePolicies+"}")
	lookup := guest("vm1", "")
	lookup.Lookup = true
	below := plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		h.Next = u
		return h.ServeDNS(origin.NewContext(ctx, lookup), w, new(dns.Msg).SetQuestion("target.example.", dns.TypeA))
	})
	h.Next = below
	ask(t, origin.NewContext(t.Context(), guest("vm1", "")), h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
	if !slices.Equal(u.asked, []string{"target.example."}) {
		t.Errorf("asked %q for the target of an alias of an allowed name", u.asked)
	}
	u.asked = nil
	m := ask(t, origin.NewContext(t.Context(), lookup), h, new(dns.Msg).SetQuestion("target.example.", dns.TypeA))
	if len(u.asked) > 0 || m.Rcode != dns.RcodeNameError {
		t.Errorf("a lookup of a plugin above: asked %q, %v", u.asked, m)
	}
}

// count returns a verdict's count of a policy.
func count(t testing.TB, policy, verdict string) float64 {
	t.Helper()
	return testkit.Value(t, verdicts.WithLabelValues("", "", policy, verdict))
}

func TestObserve(t *testing.T) {
	h, u := newHandler(t, "egress {\n observe on"+somePolicies+"}")
	ctx := h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), guest("vm1", "red"))), request.Request{})
	for _, tt := range []struct{ name, policy, verdict string }{
		{"a.pypi.org.", "ofpunt/port=vm1", allowed},
		{"example.org.", "ofpunt/switch=red", allowed},
		{"evil.example.", "ofpunt/port=vm1", wouldDeny},
		{"org.", "ofpunt/port=vm1", wouldDeny},
	} {
		before := count(t, tt.policy, tt.verdict)
		u.asked = nil
		m := ask(t, ctx, h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
		if m.Rcode != dns.RcodeSuccess || len(u.asked) != 1 || count(t, tt.policy, tt.verdict) != before+1 {
			t.Errorf("%s: %v, asked %q, %v verdicts more", tt.name, m, u.asked, count(t, tt.policy, tt.verdict)-before)
		}
		labels := []string{}
		for _, l := range []string{"policy", "verdict", "answer"} {
			labels = append(labels, metadata.ValueFunc(ctx, "egress/"+l)())
		}
		if !slices.Equal(labels, []string{tt.policy, tt.verdict, ""}) {
			t.Errorf("%s: metadata %q", tt.name, labels)
		}
	}
	// A guest without a policy has no metadata.
	ctx = h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), guest("vm2", ""))), request.Request{})
	if got := metadata.Labels(ctx); len(got) > 0 {
		t.Errorf("metadata %q", got)
	}
}

// Addresses that enforcement would not open are observed, and the answer stays as it is.
func TestAnswers(t *testing.T) {
	rr := func(text string) dns.RR {
		r, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, tt := range []struct {
		what, records, want string
	}{
		{"a public address", "a.pypi.org. A 192.0.2.1", "invalid IP"},
		{"a private address that an entry has", "a.pypi.org. A 10.1.2.3", "invalid IP"},
		{"a private address", "a.pypi.org. A 192.168.1.1", "192.168.1.1"},
		{"the second one", "a.pypi.org. A 192.0.2.1\na.pypi.org. A 169.254.169.254", "169.254.169.254"},
		{"IPv6", "a.pypi.org. AAAA fd00::1", "fd00::1"},
		{"IPv4 in IPv6", "a.pypi.org. AAAA ::ffff:192.168.1.1", "192.168.1.1"},
		{"an alias", "a.pypi.org. CNAME B.example.\nb.EXAMPLE. CNAME c.example.\nc.example. A 192.0.2.1", "invalid IP"},
		{"an alias in another order", "c.example. A 192.0.2.1\nb.example. CNAME c.example.\nA.pypi.org. CNAME b.example.", "invalid IP"},
		{"an alias to a private address", "a.pypi.org. CNAME b.example.\nb.example. A 127.0.0.1", "127.0.0.1"},
		{"a circle", "a.pypi.org. CNAME b.example.\nb.example. CNAME a.pypi.org.", "invalid IP"},
		{"a record that does not belong to the name", "a.pypi.org. A 192.0.2.1\nevil.example. A 192.0.2.66", "192.0.2.66"},
		{"hints", "a.pypi.org. HTTPS 1 . ipv4hint=192.0.2.1,192.168.0.1 ipv6hint=2001:db8::1", "192.168.0.1"},
		{"hints of SVCB", "a.pypi.org. SVCB 1 . ipv6hint=fe80::1", "fe80::1"},
		{"no address", `a.pypi.org. TXT "192.168.0.1"`, "invalid IP"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h, u := newHandler(t, "egress {\n observe on"+somePolicies+"}")
			m := new(dns.Msg).SetQuestion("a.PYPI.org.", dns.TypeA)
			for line := range strings.Lines(tt.records) {
				m.Answer = append(m.Answer, rr(line))
			}
			q := &query{handler: h, state: request.Request{Req: m}, numbers: []int{0, 1}}
			if got := q.closed(m).String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			before := count(t, "ofpunt/port=vm1", wouldClose)
			u.records = []string{"a.pypi.org. 60 IN A 192.168.1.1"}
			got := ask(t, origin.NewContext(t.Context(), guest("vm1", "")), h, new(dns.Msg).SetQuestion("a.pypi.org.", dns.TypeA))
			if len(got.Answer) != 1 || count(t, "ofpunt/port=vm1", wouldClose) != before+1 {
				t.Errorf("%v, %v more", got, count(t, "ofpunt/port=vm1", wouldClose)-before)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct{ mode, name, code, note string }{
		{"strict", "evil.example.", explain.Policy, ""},
		{"strict", "org.", explain.Policy, ""},
		{"strict", "a.pypi.org.", "", "policy ofpunt/port=vm1 allows the name: *.pypi.org.:443/tcp"},
		{"observe", "evil.example.", "", "policy ofpunt/port=vm1 would deny the name with strict on"},
	} {
		h, _ := newHandler(t, "egress {\n "+tt.mode+" on"+somePolicies+"}")
		e := explain.New()
		before := count(t, "ofpunt/port=vm1", denied) + count(t, "ofpunt/port=vm1", allowed) + count(t, "ofpunt/port=vm1", wouldDeny)
		ask(t, e.Context(origin.NewContext(t.Context(), guest("vm1", "red"))), h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
		r := e.Report()
		e.End()
		code, text := "", ""
		if len(r.Findings) > 0 {
			code, text = r.Findings[0].Code, r.Findings[0].Text+r.Findings[0].Remedy
		}
		if code != tt.code || strings.Join(r.Notes, "|") != tt.note || code != "" && !strings.Contains(text, "Testfile:3") {
			t.Errorf("%s %s: %+v", tt.mode, tt.name, r)
		}
		if after := count(t, "ofpunt/port=vm1", denied) + count(t, "ofpunt/port=vm1", allowed) + count(t, "ofpunt/port=vm1", wouldDeny); after != before {
			t.Errorf("%s %s is counted", tt.mode, tt.name)
		}
	}
}

// BenchmarkServeDNS has a guest without a policy, and one with two.
func BenchmarkServeDNS(b *testing.B) {
	for _, tt := range []struct{ port, name string }{{"vm2", "pypi.org."}, {"vm1", "pypi.org."}} {
		b.Run(tt.port, func(b *testing.B) {
			h, _ := newHandler(b, "egress {\n strict on"+somePolicies+"}")
			h.Next = test.NextHandler(dns.RcodeSuccess, nil)
			ctx := origin.NewContext(b.Context(), guest(tt.port, "blue"))
			w, r := &test.ResponseWriter{}, new(dns.Msg).SetQuestion(tt.name, dns.TypeA)
			b.ReportAllocs()
			for b.Loop() {
				if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
					b.Fatal(code, err)
				}
			}
		})
	}
}
