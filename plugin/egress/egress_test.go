// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
	"github.com/puntdns/puntdns/internal/testkit"
)

type upstream struct {
	asked   []string
	records []string
}

func (*upstream) Name() string { return "upstream" }

func (u *upstream) ServeDNS(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	u.asked = append(u.asked, r.Question[0].Name)
	m := new(dns.Msg).SetReply(r)
	for _, text := range u.records {
		m.Answer = append(m.Answer, test.A(text))
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

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
	h.onNode = func(a netip.Addr) bool { return a == ofInterface }
	return h, u
}

// ofInterface is the address of an interface of the node.
var ofInterface = netip.MustParseAddr("203.0.113.77")

func guest(port, sw string) *origin.Origin {
	return &origin.Origin{Bridge: "br-int", InPort: 1, Port: port, Switch: sw}
}

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
		allow pypi.org *.pypi.org:443/tcp ports.pypi.org:8443
		allow 10.0.0.0/8 198.51.100.0/24:53/udp
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
				want := tt.want
				if class != dns.ClassINET {
					want, _, _ = strings.Cut(want, " SOA")
				}
				if got != want || m.Question[0] != r.Question[0] || m.Authoritative || m.IsEdns0() != nil {
					t.Errorf("%s, want %s: %v", got, want, m)
				}
			})
		}
	}
}

// Guests without a policy, and clients of a socket, get the next plugin's answer.
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

// A client with EDNS learns of the filter (RFC 8914, section 4.18).
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

// Lookups of plugins below for an allowed name are not judged, lookups of plugins above are.
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
	ctx = h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), guest("vm2", ""))), request.Request{})
	if got := metadata.Labels(ctx); len(got) > 0 {
		t.Errorf("metadata %q", got)
	}
}

// An answer opens its public addresses, at the ports of all entries for the name.
func TestOpens(t *testing.T) {
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
		{"a public address", "a.pypi.org. A 192.0.2.1", "192.0.2.1:443/tcp"},
		{"several", "a.pypi.org. A 192.0.2.1\na.pypi.org. A 192.0.2.2\na.pypi.org. A 192.0.2.1", "192.0.2.1:443/tcp 192.0.2.2:443/tcp"},
		{"a name with two entries", "ports.pypi.org. A 192.0.2.1", "192.0.2.1:443/tcp 192.0.2.1:8443/tcp 192.0.2.1:8443/udp"},
		{"a name with an entry for all ports", "pypi.org. A 192.0.2.1", "192.0.2.1"},
		{"a private address that an entry has", "a.pypi.org. A 10.1.2.3", ""},
		{"an address that an entry has at another port", "example.org. A 198.51.100.1\nexample.org. A 192.0.2.1", "192.0.2.1 198.51.100.1"},
		{"a private address", "a.pypi.org. A 192.168.1.1", "closed 192.168.1.1"},
		{"the second one", "a.pypi.org. A 192.0.2.1\na.pypi.org. A 169.254.169.254", "closed 169.254.169.254 192.0.2.1:443/tcp"},
		{"IPv6", "a.pypi.org. AAAA fd00::1\na.pypi.org. AAAA 2001:db8::1", "closed fd00::1 [2001:db8::1]:443/tcp"},
		{"an address of closed", "a.pypi.org. A 203.0.113.7", "closed 203.0.113.7"},
		{"an address of closed that an entry has", "a.pypi.org. A 198.51.100.9", ""},
		{"an address of the node", "a.pypi.org. A 203.0.113.99", "closed 203.0.113.99"},
		{"an address of an interface", "a.pypi.org. A 203.0.113.77", "closed 203.0.113.77"},
		{"an address of an interface, behind NAT64", "a.pypi.org. AAAA 64:ff9b::cb00:714d", "closed 64:ff9b::cb00:714d"},
		{"an address of closed, behind NAT64", "a.pypi.org. AAAA 64:ff9b::cb00:7107", "closed 64:ff9b::cb00:7107"},
		{"IPv4 in IPv6", "a.pypi.org. AAAA ::ffff:192.168.1.1", "closed 192.168.1.1"},
		{"an alias", "a.pypi.org. CNAME B.example.\nb.EXAMPLE. CNAME c.example.\nc.example. A 192.0.2.1", "192.0.2.1:443/tcp"},
		{"an alias in another order", "a.pypi.org. CNAME b.example.\nc.example. A 192.0.2.1\nb.example. CNAME c.example.", "192.0.2.1:443/tcp"},
		{"an alias to a private address", "a.pypi.org. CNAME b.example.\nb.example. A 127.0.0.1", "closed 127.0.0.1"},
		{"a circle", "a.pypi.org. CNAME b.example.\nb.example. CNAME a.pypi.org.", ""},
		{"a record that does not belong to the name", "a.pypi.org. A 192.0.2.1\nevil.example. A 192.0.2.66", "closed 192.0.2.66 192.0.2.1:443/tcp"},
		{"hints", "a.pypi.org. HTTPS 1 . ipv4hint=192.0.2.1,192.168.0.1 ipv6hint=2001:db8::1", "closed 192.168.0.1 192.0.2.1:443/tcp [2001:db8::1]:443/tcp"},
		{"hints of SVCB", "a.pypi.org. SVCB 1 . ipv6hint=fe80::1", "closed fe80::1"},
		{"no address", `a.pypi.org. TXT "192.168.0.1"`, ""},
		{"an address beside what was asked", "a.pypi.org. A 192.0.2.1\na.pypi.org. TXT x", ""},
		{"another class", "a.pypi.org. CH A 192.0.2.1", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h, _ := newHandler(t, "egress {\n closed 203.0.113.0/28 198.51.100.9"+somePolicies+"}")
			var answer []dns.RR
			for line := range strings.Lines(tt.records) {
				answer = append(answer, rr(line))
			}
			m := new(dns.Msg).SetQuestion(strings.ToUpper(answer[0].Header().Name), dns.TypeA)
			if last := answer[len(answer)-1].Header(); last.Rrtype != dns.TypeCNAME {
				m.Question[0].Qtype, m.Question[0].Qclass = last.Rrtype, last.Class
			}
			m.Answer = answer
			o := guest("vm1", "red")
			o.Opener = new(fakeSwitch)
			q := &query{handler: h, origin: o, request: m, name: strings.ToLower(m.Question[0].Name)}
			q.decision = h.decide(q.policies(), q.name, nil)
			open, _, closed := q.collect(nil, m, q.closes)
			var got []string
			if closed.IsValid() {
				got = []string{"closed " + closed.String()}
			}
			of := h.PolicyOf(guest("vm1", "red"))
			for _, to := range open {
				got = append(got, to.String())
				if !of.Allows(q.name, to) || of.Allows("example.", to) {
					t.Errorf("%s: the policy does not allow what it opens, or allows it by another name", to)
				}
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			// A server of the tenant opens nothing.
			q.foreign = true
			if open, _, closed := q.collect(nil, m, q.closes); len(open) > 0 || closed.IsValid() != (tt.want != "") {
				t.Errorf("by a server of the tenant: %v, %v", open, closed)
			}
		})
	}
}

type fakeSwitch struct {
	asked []opening.Answer
	err   error
}

func (s *fakeSwitch) Open(_ context.Context, a *opening.Answer) error {
	s.asked = append(s.asked, *a)
	return s.err
}

func (s *fakeSwitch) Stands(name string, to opening.Destination, lasts time.Duration) bool {
	return s.err == nil && slices.ContainsFunc(s.asked, func(a opening.Answer) bool {
		return a.Name == name && lasts <= a.Lasts && slices.Contains(a.To, to)
	})
}

func (*fakeSwitch) IsNode(a netip.Addr) bool { return a == netip.MustParseAddr("203.0.113.99") }

type tenantZone string

func (z tenantZone) Takes(_ *origin.Origin, qname string, _ uint16) bool { return qname == string(z) }

// An answer waits for the switch, and fails if the switch does not open its addresses.
func TestEnforce(t *testing.T) {
	full := fmt.Errorf("the guest has 1000: %w", opening.ErrFull)
	for _, tt := range []struct {
		what, properties, name string
		err                    error
		opened, answer         string
		verdict                string
	}{
		{"an allowed name", "", "a.PYPI.org.", nil, "a.pypi.org. 192.0.2.1:443/tcp 1m30s", "NOERROR", allowed},
		{"a longer floor", "floor 2m", "a.pypi.org.", nil, "a.pypi.org. 192.0.2.1:443/tcp 2m0s", "NOERROR", allowed},
		{"with strict on", "strict on", "a.pypi.org.", nil, "a.pypi.org. 192.0.2.1:443/tcp 1m30s", "NOERROR", allowed},
		{"a name of a tenant's server", "", "tenant.pypi.org.", nil, "", "NOERROR", closed},
		{"another name", "", "evil.example.", nil, "", "NOERROR", notAllowed},
		{"with strict names", "strict names", "a.pypi.org.", nil, "", "NOERROR", allowed},
		{"another name with strict names", "strict names", "evil.example.", nil, "", "NXDOMAIN 17", denied},
		{"another name with strict on", "strict on", "evil.example.", nil, "", "NXDOMAIN 17", denied},
		{"observe on", "observe on", "a.pypi.org.", nil, "", "NOERROR", allowed},
		{"too many", "", "a.pypi.org.", full, "a.pypi.org. 192.0.2.1:443/tcp 1m30s", "SERVFAIL 18 too many open destinations", failed},
		{"no switch", "", "a.pypi.org.", errors.New("no connection"), "a.pypi.org. 192.0.2.1:443/tcp 1m30s", "SERVFAIL 14", failed},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h, u := newHandler(t, "egress {\n"+tt.properties+somePolicies+"}")
			h.forwards = tenantZone("tenant.pypi.org.")
			u.records = []string{"a.pypi.org. 90 IN A 192.0.2.1"}
			if strings.HasPrefix(tt.name, "tenant.") {
				u.records = []string{"tenant.pypi.org. 90 IN A 192.0.2.1"}
			}
			sw := &fakeSwitch{err: tt.err}
			o := guest("vm1", "")
			o.Opener = sw
			before := count(t, "ofpunt/port=vm1", tt.verdict)
			m := ask(t, origin.NewContext(t.Context(), o), h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA).SetEdns0(1232, false))
			opened, answer := "", dns.RcodeToString[m.Rcode]
			for _, a := range sw.asked {
				opened = fmt.Sprintf("%s %s %s", a.Name, a.To[0], a.Lasts)
			}
			if o := m.IsEdns0(); o != nil {
				for _, option := range o.Option {
					e := option.(*dns.EDNS0_EDE)
					answer = strings.TrimSpace(fmt.Sprintf("%s %d %s", answer, e.InfoCode, e.ExtraText))
				}
			}
			if opened != tt.opened || answer != tt.answer || count(t, "ofpunt/port=vm1", tt.verdict) != before+1 {
				t.Errorf("opened %q, answered %q, %v verdicts %s more", opened, answer, count(t, "ofpunt/port=vm1", tt.verdict)-before, tt.verdict)
			}
		})
	}
}

// replacer stands for rpz.
type replacer struct{ query *dns.Msg }

func (r replacer) Query() *dns.Msg { return r.query }

func (replacer) Judge(*dns.Msg) bool { return true }

// An answer that rpz replaces opens nothing, and nothing is explained. rpz's writer of another query has no say.
func TestReplaced(t *testing.T) {
	for _, tt := range []struct {
		name         string
		replaced     bool
		opens, finds int
	}{
		{"a.pypi.org.", false, 1, 0},
		{"a.pypi.org.", true, 0, 0},
		{"evil.example.", false, 0, 1},
		{"evil.example.", true, 0, 0},
	} {
		h, u := newHandler(t, "egress {\n"+somePolicies+"}")
		u.records = []string{tt.name + " 90 IN A 192.0.2.1"}
		sw := new(fakeSwitch)
		o := guest("vm1", "")
		o.Opener = sw
		q := new(dns.Msg).SetQuestion(tt.name, dns.TypeA)
		above := replacer{q}
		if !tt.replaced {
			above.query = q.Copy()
		}
		ctx := origin.WithReplacer(origin.NewContext(t.Context(), o), above)
		if m := ask(t, ctx, h, q); len(m.Answer) != 1 || len(sw.asked) != tt.opens {
			t.Errorf("%+v: opened %v, answered %v", tt, sw.asked, m)
		}
		e := explain.New()
		ask(t, e.Context(ctx), h, q)
		if found := e.Report().Findings; len(found) != tt.finds {
			t.Errorf("%+v: %+v", tt, found)
		}
		e.End()
	}
}

// Metadata, and so the audit log, has what an answer has opened.
func TestOpenedInMetadata(t *testing.T) {
	many := []string{"pypi.org. 60 IN A 192.0.2.1"}
	for i := range mostOpened {
		many = append(many, fmt.Sprintf("pypi.org. 60 IN A 192.0.2.%d", i+2))
	}
	for _, tt := range []struct {
		what, name string
		records    []string
		err        error
		want       string
	}{
		{"two", "a.pypi.org.", []string{"a.pypi.org. 60 IN A 192.0.2.1", "a.pypi.org. 60 IN A 192.0.2.2"}, nil, "192.0.2.1:443/tcp 192.0.2.2:443/tcp"},
		{"none", "evil.example.", []string{"evil.example. 60 IN A 192.0.2.1"}, nil, ""},
		{"refused", "pypi.org.", many[:1], opening.ErrFull, ""},
		{"many", "pypi.org.", many, nil, "192.0.2.16 and 1 more"},
	} {
		h, u := newHandler(t, "egress {"+somePolicies+"}")
		u.records = tt.records
		o := guest("vm1", "")
		o.Opener = &fakeSwitch{err: tt.err}
		ctx := h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), o)), request.Request{})
		ask(t, ctx, h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
		ask(t, ctx, h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA)) // open already
		if got := metadata.ValueFunc(ctx, "egress/opened")(); !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// An answer whose addresses are open asks the switch for nothing. If they are to stay open for longer, they are judged again:
// an address may have become the node's.
func TestStands(t *testing.T) {
	h, u := newHandler(t, "egress {"+somePolicies+"}")
	taken, judged := false, 0
	h.onNode = func(netip.Addr) bool { judged++; return taken }
	sw := new(fakeSwitch)
	o := guest("vm1", "red")
	o.Opener = sw
	for _, step := range []struct {
		addresses string
		ttl       int
		taken     bool
		opened    int
		judged    int
	}{
		{"192.0.2.1", 600, false, 1, 1},
		{"192.0.2.1", 600, false, 1, 0},
		{"192.0.2.1", 300, true, 1, 0},
		{"192.0.2.1 192.0.2.2", 300, false, 2, 2}, // one is new
		{"192.0.2.1", 601, false, 3, 1},
		{"192.0.2.1", 602, true, 3, 1},
	} {
		taken, judged, u.records = step.taken, 0, nil
		for a := range strings.FieldsSeq(step.addresses) {
			u.records = append(u.records, fmt.Sprintf("pypi.org. %d IN A %s", step.ttl, a))
		}
		ask(t, origin.NewContext(t.Context(), o), h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
		if len(sw.asked) != step.opened || judged != step.judged {
			t.Errorf("%+v: asked %d times, judged %d times", step, len(sw.asked), judged)
		}
	}
	h.forwards, u.records = tenantZone("pypi.org."), []string{"pypi.org. 300 IN A 192.0.2.1"}
	before := count(t, "ofpunt/port=vm1", closed)
	ask(t, origin.NewContext(t.Context(), o), h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
	if count(t, "ofpunt/port=vm1", closed) != before+1 {
		t.Error("the answer of a tenant's server has an open address, and is not counted as closed")
	}
}

// An address that stays closed does not keep others open for its TTL.
func TestLasts(t *testing.T) {
	h, u := newHandler(t, "egress {"+somePolicies+"}")
	u.records = []string{"pypi.org. 40000 IN A 192.168.0.1", "pypi.org. 90 IN A 192.0.2.1"}
	sw := new(fakeSwitch)
	o := guest("vm1", "red")
	o.Opener = sw
	ask(t, origin.NewContext(t.Context(), o), h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
	if len(sw.asked) != 1 || len(sw.asked[0].To) != 1 || sw.asked[0].Lasts != 90*time.Second {
		t.Errorf("%v", sw.asked)
	}
}

// If only names count, the switch opens nothing.
func TestEnforces(t *testing.T) {
	for mode, want := range map[string]bool{"strict off": true, "strict on": true, "strict names": false, "observe on": false} {
		h, _ := newHandler(t, "egress {\n "+mode+somePolicies+"}")
		if _, got := h.Enforces(); got != want {
			t.Errorf("%s: %v", mode, got)
		}
	}
}

// Guests with the same policies share a value. Its sum changes with what is allowed, not with the order of entries.
func TestPolicyOf(t *testing.T) {
	h, _ := newHandler(t, "egress example.org {"+somePolicies+"}")
	one, same, other := h.PolicyOf(guest("vm1", "red")), h.PolicyOf(guest("vm1", "red")), h.PolicyOf(guest("vm1", "blue"))
	if one == nil || one != same || one == other || h.PolicyOf(guest("vm2", "blue")) != nil {
		t.Errorf("%p, %p, %p", one, same, other)
	}
	closing, _ := newHandler(t, "egress {\n closed 192.0.2.0/24"+somePolicies+"}")
	if to := (opening.Destination{Address: netip.MustParseAddr("192.0.2.1")}); closing.PolicyOf(guest("vm1", "red")).Allows("pypi.org.", to) {
		t.Error("an address of closed stays open at a reload")
	}
	for _, tt := range []struct {
		zone, old, with string
		same            bool
	}{
		{"example.org", "", "", true},
		{"example.org", "pypi.org *.pypi.org:443/tcp", "*.pypi.org:443/tcp pypi.org", true},
		{"example.net", "", "", false},
		{"example.org", "allow example.org", "allow www.example.org", false},
	} {
		h, _ := newHandler(t, "egress "+tt.zone+" {"+strings.Replace(somePolicies, tt.old, tt.with, 1)+"}")
		if same := h.PolicyOf(guest("vm1", "red")).Sum() == one.Sum(); same != tt.same {
			t.Errorf("%s, %q: the sum is the same: %v", tt.zone, tt.with, same)
		}
	}
	if got := fmt.Sprint(one.Networks()); got != "[{10.0.0.0/8 0 0} {198.51.100.0/24 17 53}]" {
		t.Error(got)
	}
	public, private := opening.Destination{Address: netip.MustParseAddr("192.0.2.1")}, opening.Destination{Address: netip.MustParseAddr("10.1.2.3")}
	for name, want := range map[string]bool{"example.org.": true, "pypi.org.": false} { // pypi.org is in no zone of the directive
		if got := one.Allows(name, public); got != want || one.Allows(name, private) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type northboundPort []*policy.Policy

func (northboundPort) Routers() string            { return "" }
func (northboundPort) Groups() string             { return "" }
func (northboundPort) ExternalID(string) string   { return "" }
func (p northboundPort) Egress() []*policy.Policy { return p }

// Northbound policies add to the Corefile's only with `northbound on`.
func TestNorthbound(t *testing.T) {
	rules := func(text string) *policy.Policy {
		return policy.ParseText(text, func(string, error) {})
	}
	of := func(port string, texts ...string) *origin.Origin {
		o := guest(port, "")
		var all northboundPort
		for _, text := range texts {
			all = append(all, rules(text))
		}
		o.Attributes = all
		return o
	}
	public := opening.Destination{Address: netip.MustParseAddr("192.0.2.1")}
	for _, tt := range []struct {
		what, property string
		of             *origin.Origin
		name           string
		asked          bool
		// open: the policy allows an address. policy is the metric's label, "" for none.
		open   bool
		policy string
	}{
		{"allowed", "northbound on", of("vm9", "a.test"), "a.test.", true, true, northboundName},
		{"not allowed", "northbound on", of("vm9", "a.test"), "b.test.", false, false, northboundName},
		{"the second", "northbound on", of("vm9", "a.test", "b.test"), "b.test.", true, true, northboundName},
		{"in addition to the Corefile", "northbound on", of("vm1", "a.test"), "a.test.", true, true, northboundName},
		{"by the Corefile", "northbound on", of("vm1", "a.test"), "pypi.org.", true, true, "ofpunt/port=vm1"},
		{"by neither", "northbound on", of("vm1", "a.test"), "b.test.", false, false, "ofpunt/port=vm1"},
		{"an empty policy", "northbound on", of("vm9", "a..b"), "a.test.", false, false, northboundName},
		{"without a value", "northbound on", of("vm9"), "a.test.", true, false, ""},
		{"without a row of OVN", "northbound on", guest("vm9", ""), "a.test.", true, false, ""},
		{"widens nothing by default", "", of("vm1", "a.test"), "a.test.", false, false, "ofpunt/port=vm1"},
		{"restricts nothing by default", "northbound off", of("vm9", "a.test"), "b.test.", true, false, ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h, u := newHandler(t, "egress {\n strict on\n"+tt.property+somePolicies+"}")
			verdict, before := denied, 0.0
			if tt.asked {
				verdict = allowed
			}
			if tt.policy != "" {
				before = count(t, tt.policy, verdict)
			}
			ctx := h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), tt.of)), request.Request{})
			ask(t, ctx, h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
			if f := metadata.ValueFunc(ctx, "egress/policy"); (f != nil) != (tt.policy != "") || f != nil && f() != tt.policy {
				t.Error("another policy in metadata")
			}
			if asked := len(u.asked) > 0; asked != tt.asked {
				t.Errorf("asked: %v", asked)
			}
			if tt.policy != "" && count(t, tt.policy, verdict) != before+1 {
				t.Errorf("not counted as %s of %s", verdict, tt.policy)
			}
			p := h.PolicyOf(tt.of)
			if (p != nil) != (tt.policy != "") || p != h.PolicyOf(tt.of) {
				t.Errorf("the policy is %v, and %v the next time", p, h.PolicyOf(tt.of))
			}
			if open := p != nil && p.Allows(tt.name, public); open != tt.open {
				t.Errorf("open: %v", open)
			}
		})
	}
	h, _ := newHandler(t, "egress {\n northbound on"+somePolicies+"}")
	shared := rules("a.test 192.0.2.0/24 192.0.2.0/24")
	alone := guest("vm9", "")
	alone.Attributes = northboundPort{shared}
	if got := fmt.Sprint(h.PolicyOf(alone).Networks()); got != "[{192.0.2.0/24 0 0}]" {
		t.Error(got)
	}
	one, other := guest("vm1", ""), guest("vm1", "")
	one.Attributes, other.Attributes = northboundPort{shared}, northboundPort{shared}
	if h.PolicyOf(one) != h.PolicyOf(other) {
		t.Error("guests with the same policies do not share one")
	}
	if got := fmt.Sprint(h.PolicyOf(one).Networks()); got != "[{10.0.0.0/8 0 0} {198.51.100.0/24 17 53} {192.0.2.0/24 0 0}]" {
		t.Error(got)
	}
	other.Attributes = northboundPort{rules("a.test 192.0.2.0/24")}
	if h.PolicyOf(one) == h.PolicyOf(other) {
		t.Error("the policy of another value is the same")
	}
	// An answer to an allowed name may have an entry's address.
	all := (&query{origin: alone, handler: h}).policies()
	if !haveEntry(all, public.Address) || haveEntry(all, netip.MustParseAddr("203.0.113.1")) {
		t.Error("addresses of entries")
	}
}

// The explanation shows where a Northbound entry belongs.
func TestExplainNorthbound(t *testing.T) {
	for _, mode := range []string{"strict on", "strict off", "observe on"} {
		h, u := newHandler(t, "egress {\n "+mode+"\n northbound on\n}")
		u.records = []string{"a.test. 60 IN A 192.0.2.1"}
		o := guest("vm9", "")
		port, group := policy.New(nil), policy.ParseText("b.test", func(string, error) {})
		port.At, group.At = "Logical_Switch_Port vm9", "Port_Group web"
		o.Attributes = northboundPort{port, group}
		question := new(dns.Msg).SetQuestion("a.test.", dns.TypeA)
		e := explain.New()
		ask(t, e.Context(origin.NewContext(t.Context(), o)), h, question)
		r := e.Report()
		e.End()
		if mode == "observe on" {
			ask(t, origin.NewContext(t.Context(), o), h, question)
		} else if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Remedy, "a.test. to external_ids:dns-egress") || !strings.Contains(r.Findings[0].Text, "(Logical_Switch_Port vm9, Port_Group web)") {
			t.Errorf("%s: %+v", mode, r)
		}
		e = explain.New()
		ask(t, e.Context(origin.NewContext(t.Context(), o)), h, new(dns.Msg).SetQuestion("b.test.", dns.TypeA))
		if got := e.Report().Notes; len(got) == 0 || got[0] != "policy external_ids:dns-egress Port_Group web allows the name: b.test." {
			t.Errorf("%s: %q", mode, got)
		}
		e.End()
	}
}

// A long TTL stays in the answer, but not in the flow's idle timeout.
func TestLongTTL(t *testing.T) {
	h, u := newHandler(t, "egress {"+somePolicies+"}")
	u.records = []string{"a.pypi.org. 604800 IN A 192.0.2.1"}
	sw := &fakeSwitch{}
	o := guest("vm1", "")
	o.Opener = sw
	m := ask(t, origin.NewContext(t.Context(), o), h, new(dns.Msg).SetQuestion("a.pypi.org.", dns.TypeA))
	if m.Answer[0].Header().Ttl != 604800 || sw.asked[0].Lasts != maxTTL {
		t.Errorf("%v is open for %v", m, sw.asked[0].Lasts)
	}
	if longest := maxTTL + 6*time.Hour; longest > math.MaxUint16*time.Second {
		t.Errorf("%v with the longest grace is no idle timeout", longest)
	}
}

// observe on counts a closed address and keeps the answer.
func TestObservedAnswer(t *testing.T) {
	h, u := newHandler(t, "egress {\n observe on"+somePolicies+"}")
	u.records = []string{"a.pypi.org. 60 IN A 192.168.1.1"}
	before := count(t, "ofpunt/port=vm1", wouldClose)
	m := ask(t, origin.NewContext(t.Context(), guest("vm1", "")), h, new(dns.Msg).SetQuestion("a.pypi.org.", dns.TypeA))
	if len(m.Answer) != 1 || count(t, "ofpunt/port=vm1", wouldClose) != before+1 {
		t.Errorf("%v, %v more", m, count(t, "ofpunt/port=vm1", wouldClose)-before)
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct{ mode, name, code, note string }{
		{"strict off", "evil.example.", api.CodeNotOpened, "policy ofpunt/port=vm1 opens no address for the name"},
		{"strict on", "evil.example.", api.CodePolicy, ""},
		{"strict on", "org.", api.CodePolicy, ""},
		{"strict on", "a.pypi.org.", "", "policy ofpunt/port=vm1 allows the name: *.pypi.org.:443/tcp|the answer would open 192.0.2.1:443/tcp 192.0.2.2:443/tcp"},
		{"strict names", "a.pypi.org.", "", "policy ofpunt/port=vm1 allows the name: *.pypi.org.:443/tcp"},
		{"observe on", "a.pypi.org.", "", "policy ofpunt/port=vm1 allows the name: *.pypi.org.:443/tcp"},
		{"observe on", "evil.example.", "", "policy ofpunt/port=vm1 would deny the name"},
	} {
		h, u := newHandler(t, "egress {\n "+tt.mode+somePolicies+"}")
		u.records = []string{tt.name + " 60 IN A 192.0.2.1", tt.name + " 60 IN A 192.0.2.2"}
		e, sw := explain.New(), new(fakeSwitch)
		o := guest("vm1", "red")
		o.Opener = sw
		before := count(t, "ofpunt/port=vm1", denied) + count(t, "ofpunt/port=vm1", allowed) + count(t, "ofpunt/port=vm1", wouldDeny)
		ask(t, e.Context(origin.NewContext(t.Context(), o)), h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
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

// An explanation shows the answer that the guest would get. It opens nothing, so metadata has no destinations.
func TestExplainFailed(t *testing.T) {
	for _, tt := range []struct {
		err        error
		note, text string
		rcode      int
	}{
		{nil, "the answer would open 192.0.2.1", "", dns.RcodeSuccess},
		{fmt.Errorf("the guest has 100: %w", opening.ErrFull), "policy ofpunt/port=vm1 allows the name: pypi.org.", "egress-failed: egress (Testfile:1) answers SERVFAIL: the guest has 100", dns.RcodeServerFailure},
	} {
		h, u := newHandler(t, "egress {"+somePolicies+"}")
		u.records = []string{"pypi.org. 60 IN A 192.0.2.1"}
		o, e := guest("vm1", ""), explain.New()
		o.Opener = &fakeSwitch{err: tt.err}
		ctx := h.Metadata(metadata.ContextWithMetadata(e.Context(origin.NewContext(t.Context(), o))), request.Request{})
		before := count(t, "ofpunt/port=vm1", failed)
		m := ask(t, ctx, h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
		r := e.Report()
		e.End()
		found := ""
		for _, f := range r.Findings {
			found += f.Code + ": " + f.Text
		}
		if m.Rcode != tt.rcode || r.Notes[len(r.Notes)-1] != tt.note || !strings.Contains(found, tt.text) || (found == "") != (tt.text == "") {
			t.Errorf("%v, %+v", m, r)
		}
		if got := metadata.ValueFunc(ctx, "egress/opened")(); got != "" || count(t, "ofpunt/port=vm1", failed) != before {
			t.Errorf("opened %q, %v more have failed", got, count(t, "ofpunt/port=vm1", failed)-before)
		}
	}
}

// Each policy that allows the name is named, with its own entries.
func TestExplainPolicies(t *testing.T) {
	h, _ := newHandler(t, "egress {\n policy ofpunt/port vm1 {\n allow pypi.org *.org:80\n }\n policy ofpunt/switch red {\n allow pypi.org:443\n }\n policy ofpunt/port vm2 {\n allow *.org\n }\n}")
	e := explain.New()
	defer e.End()
	ask(t, e.Context(origin.NewContext(t.Context(), guest("vm1", "red"))), h, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA))
	if got := strings.Join(e.Report().Notes, "|"); got != "policy ofpunt/port=vm1 allows the name: *.org.:80 pypi.org.|policy ofpunt/switch=red allows the name: pypi.org.:443" {
		t.Error(got)
	}
}

// An answer that opens nothing is a finding, unless the guest may reach one of its addresses.
func TestExplainNotOpened(t *testing.T) {
	for _, tt := range []struct {
		mode, name  string
		addresses   []string
		why, remedy string // of the finding, "" for none
	}{
		{"strict off", "a.pypi.org.", []string{"192.168.1.1"}, "special purpose", "allow 192.168.1.1"},
		{"strict off", "a.pypi.org.", []string{"203.0.113.77"}, "address of the node", "see whether"},
		{"strict off", "a.pypi.org.", []string{"203.0.113.99"}, "address of the node", "see whether"}, // as the switch knows
		{"strict off", "a.pypi.org.", []string{"203.0.113.7"}, "property closed", "see whether"},
		{"strict off", "tenant.pypi.org.", []string{"192.0.2.1"}, "server of the tenant", "see whether"},
		{"strict off", "alias.pypi.org.", []string{"192.0.2.1"}, "another name", "see whether"},
		{"strict off", "a.pypi.org.", []string{"192.168.1.1", "192.0.2.1"}, "", ""},
		{"strict off", "a.pypi.org.", []string{"10.1.2.3"}, "", ""},
		{"strict off", "evil.example.", []string{"192.0.2.1"}, "does not allow", "allow evil.example."},
		{"strict off", "evil.example.", []string{"192.0.2.1", "10.1.2.3"}, "", ""},
		{"strict off", "evil.example.", nil, "", ""},
		{"observe on", "a.pypi.org.", []string{"192.168.1.1"}, "", ""},
		{"observe on", "evil.example.", []string{"192.0.2.1"}, "", ""},
	} {
		h, u := newHandler(t, "egress {\n closed 203.0.113.0/28\n "+tt.mode+somePolicies+"}")
		h.forwards = tenantZone("tenant.pypi.org.")
		owner := strings.Replace(tt.name, "alias.", "other.", 1)
		for _, a := range tt.addresses {
			u.records = append(u.records, owner+" 60 IN A "+a)
		}
		e := explain.New()
		o := guest("vm1", "red")
		o.Opener = new(fakeSwitch)
		ask(t, e.Context(origin.NewContext(t.Context(), o)), h, new(dns.Msg).SetQuestion(tt.name, dns.TypeA))
		found := e.Report().Findings
		e.End()
		if tt.remedy == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || found[0].Code != api.CodeNotOpened || !strings.Contains(found[0].Text, tt.why) || !strings.Contains(found[0].Remedy, tt.remedy) {
			t.Errorf("%+v: %+v", tt, found)
		}
	}
}

type openSwitch struct{}

func (openSwitch) Open(context.Context, *opening.Answer) error            { return nil }
func (openSwitch) Stands(string, opening.Destination, time.Duration) bool { return true }
func (openSwitch) IsNode(netip.Addr) bool                                 { return false }

// BenchmarkServeDNS has the answer to a guest without a policy, and to one whose address is open.
func BenchmarkServeDNS(b *testing.B) {
	for _, port := range []string{"vm2", "vm1"} {
		b.Run(port, func(b *testing.B) {
			h, _ := newHandler(b, "egress {\n strict on"+somePolicies+"}")
			answer := []dns.RR{test.A("pypi.org. 3600 IN A 192.0.2.1")}
			h.Next = test.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				m := new(dns.Msg).SetReply(r)
				m.Answer = answer
				return dns.RcodeSuccess, w.WriteMsg(m)
			})
			o := guest(port, "blue")
			o.Opener = openSwitch{}
			ctx := origin.NewContext(b.Context(), o)
			w, r := &test.ResponseWriter{}, new(dns.Msg).SetQuestion("pypi.org.", dns.TypeA)
			b.ReportAllocs()
			for b.Loop() {
				if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
					b.Fatal(code, err)
				}
			}
		})
	}
}

// Names are remembered if an entry can match them.
func TestLearned(t *testing.T) {
	h, _ := newHandler(t, "egress {\n observe on"+somePolicies+"}")
	observers.open(h)
	defer observers.close(h)
	for _, name := range []string{"pypi.org.", "evil.example.", "EVIL.example.", `a\.b.example.`, "api.example."} {
		ask(t, origin.NewContext(t.Context(), guest("vm1", "blue")), h, new(dns.Msg).SetQuestion(name, dns.TypeA))
	}
	ask(t, origin.NewContext(t.Context(), guest("vm1", "red")), h, new(dns.Msg).SetQuestion("1.example.", dns.TypeA))
	for i := range maxLearned + 5 {
		ask(t, origin.NewContext(t.Context(), guest("", "red")), h, new(dns.Msg).SetQuestion(fmt.Sprintf("%d.example.", i), dns.TypeA))
	}
	all, err := observers.answer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all.(*api.LearnedPolicies).Policies {
		switch p.Policy {
		case "ofpunt/port vm1":
			if got := fmt.Sprint(p.Names, p.More, p.Allow); got != "[{1.example. 1} {api.example. 1} {evil.example. 2}] true [pypi.org. *.pypi.org.:443/tcp ports.pypi.org.:8443 10.0.0.0/8 198.51.100.0/24:53/udp]" {
				t.Error(got)
			}
		case "ofpunt/switch red":
			if len(p.Names) != maxLearned || !p.More || !slices.Contains(p.Names, api.LearnedName{Name: "1.example.", Queries: 2}) {
				t.Errorf("%d names, more: %v: %v", len(p.Names), p.More, p.Names)
			}
		}
	}
}

// Policies of the Corefile are listed without a guest too, Northbound policies with one only.
func TestInForce(t *testing.T) {
	of := func(port, network string, rows ...*policy.Policy) origin.Origin {
		o := *guest(port, network)
		o.Attributes = northboundPort(rows)
		return o
	}
	shared, own := policy.ParseText("*.com a..b", func(string, error) {}), policy.ParseText("", func(string, error) {})
	shared.At, own.At = "Port_Group web", "Logical_Switch_Port vm3"
	guests := []origin.Origin{of("vm3", "red", shared, own), of("vm1", "red", shared), of("vm1", "red", shared), of("vm9", "blue")}
	for _, tt := range []struct{ mode, want, northbound string }{
		{"observe on", "observe", ""},
		{"strict off", "enforce", ""},
		{"strict on\n northbound on", "strict", "external_ids:dns-egress at Logical_Switch_Port vm3: [vm3] strict []; external_ids:dns-egress at Port_Group web: [vm1 vm3] strict [*.com.]; "},
		{"strict names", "strict names", ""},
	} {
		h, _ := newHandler(t, "egress {\n "+tt.mode+"\n policy ofpunt/port vm1 {\n allow pypi.org 10.0.0.0/8\n }\n policy ofpunt/switch red {\n allow *.github.io\n }\n policy ofpunt/port nobody {\n allow example.org\n }\n}")
		corefile, northbound := h.InForce(guests)
		text := func(all []api.EgressPolicy) (said string) {
			for _, p := range all {
				at, _, _ := strings.Cut(p.At, ":") // of the file
				said += fmt.Sprintf("%s at %s: %v %s %v; ", p.Policy, at, p.Guests, p.Mode, p.Allow)
			}
			return said
		}
		want := strings.ReplaceAll("ofpunt/port vm1 at Testfile: [vm1] MODE [pypi.org. 10.0.0.0/8]; ofpunt/switch red at Testfile: [vm1 vm3] MODE [*.github.io.]; ofpunt/port nobody at Testfile: [] MODE [example.org.]; ", "MODE", tt.want)
		if got := text(corefile); got != want {
			t.Errorf("%s: %s, want %s", tt.mode, got, want)
		}
		if got := text(northbound); got != tt.northbound {
			t.Errorf("%s: Northbound has %s, want %s", tt.mode, got, tt.northbound)
		}
		if warned := fmt.Sprint(corefile[0].Warnings, len(corefile[1].Warnings)); warned != "[] 1" || len(northbound) > 0 && len(northbound[1].Warnings) != 1 {
			t.Errorf("%s: warnings %s of the Corefile, %+v", tt.mode, warned, northbound)
		}
	}
}
