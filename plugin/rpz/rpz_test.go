// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
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
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The forward of TestAsBIND ends it some time after its shutdown.
		goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/pkg/proxy.(*Transport).connManager"))
}

const zoneHead = "$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. 7 3600 600 86400 60\n@ NS ns.rpz.\n"

// writeZone writes the file of a zone.
func writeZone(t testing.TB, dir, zone, rules string) string {
	t.Helper()
	path := filepath.Join(dir, zone)
	if err := os.WriteFile(path+".new", []byte(zoneHead+rules), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// open returns a handler with the properties, in which ZONE stands for the path of the zone's
// file with the rules. Behind it is a plugin that answers with 10.0.0.1 and, where asked, a
// signature.
func open(t testing.TB, properties, rules string) *Handler {
	t.Helper()
	path := writeZone(t, t.TempDir(), "rpz", rules)
	h, err := readHandler(caddy.NewTestController("dns", "rpz . {\n"+strings.ReplaceAll(properties, "ZONE", "zone rpz. file "+path)+"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	h.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := answerOf(r)
		recorder, judges := ctx.Value(judgesKey{}).(*dnstest.Recorder)
		replaced := judges && origin.JudgeAnswer(ctx, r, m)
		err := w.WriteMsg(m)
		if judges && replaced != (recorder.Msg != m) {
			t.Errorf("%s: replaced: %v", r.Question[0].String(), replaced)
		}
		return dns.RcodeSuccess, err
	})
	h.lookup = func(_ context.Context, s request.Request, name string, qtype uint16) (*dns.Msg, error) {
		if strings.HasPrefix(name, "broken.") {
			return nil, errors.New("broken")
		}
		return answerOf(s.NewWithQuestion(name, qtype).Req), nil
	}
	if err := h.open(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return h
}

// answerOf answers for any name: with 10.0.0.1, a denial for nx.*, TC for large.*, a failure for fail.*, and
// for alias.* with the name after alias. Answers in signed.example are signed.
func answerOf(r *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable, m.AuthenticatedData = true, true
	name, qtype := r.Question[0].Name, r.Question[0].Qtype
	add := func(format string, args ...any) {
		rr, err := dns.NewRR(fmt.Sprintf(name+" 300 IN "+format, args...))
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
		if o := r.IsEdns0(); o != nil && o.Do() && strings.HasSuffix(name, "signed.example.") {
			m.Answer = append(m.Answer, &dns.RRSIG{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeRRSIG, Class: dns.ClassINET, Ttl: 300}, TypeCovered: rr.Header().Rrtype})
		}
	}
	for {
		target, ok := strings.CutPrefix(name, "alias.")
		if !ok || qtype == dns.TypeCNAME {
			break
		}
		add("CNAME %s", target)
		name = target
	}
	switch {
	case strings.HasPrefix(name, "nx."):
		m.Rcode = dns.RcodeNameError
		m.Ns = append(m.Ns, &dns.SOA{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 300}})
		if o := r.IsEdns0(); o != nil && o.Do() && strings.HasSuffix(name, "signed.example.") {
			m.Ns = append(m.Ns, &dns.NSEC{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: 300}, NextDomain: "."})
		}
	case strings.HasPrefix(name, "large."):
		m.Truncated = true
	case strings.HasPrefix(name, "fail."):
		m.Rcode = dns.RcodeServerFailure
	case qtype == dns.TypeA:
		add("A 10.0.0.1")
	case qtype == dns.TypeHTTPS || qtype == dns.TypeSVCB:
		add("%s 1 . ipv4hint=10.0.0.1 ipv6hint=2001:db8::1", dns.Type(qtype))
	}
	return m
}

// judgesKey is the context key of ask's recorder, if the plugin behind has the answer judged before it writes.
type judgesKey struct{}

// asked is how a question is asked.
type asked struct {
	ctx      context.Context
	tcp      bool
	edns, do bool
	judged   bool // before it is written
}

// ask returns the answer, nil for none.
func ask(t testing.TB, h *Handler, qname, qtype string, a asked) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype])
	if a.edns || a.do {
		m.SetEdns0(1232, a.do)
	}
	if a.ctx == nil {
		a.ctx = context.Background()
	}
	w := dnstest.NewRecorder(&test.ResponseWriter{TCP: a.tcp})
	if a.judged {
		a.ctx = context.WithValue(a.ctx, judgesKey{}, w)
	}
	code, err := h.ServeDNS(a.ctx, w, m)
	if err != nil {
		t.Fatal(err)
	}
	if w.Msg == nil && !plugin.ClientWrite(code) {
		return new(dns.Msg).SetRcode(m, code)
	}
	return w.Msg
}

// short returns the rcode, the flags and the records.
func short(m *dns.Msg) string {
	if m == nil {
		return "nothing"
	}
	words := []string{dns.RcodeToString[m.Rcode]}
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Truncated, "tc"}, {m.Authoritative, "aa"}, {m.AuthenticatedData, "ad"}, {m.RecursionAvailable, "ra"}} {
		if f.set {
			words = append(words, f.name)
		}
	}
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		h := rr.Header()
		switch rr := rr.(type) {
		case *dns.OPT:
			for _, o := range rr.Option {
				words = append(words, o.String())
			}
		case *dns.RRSIG, *dns.NSEC:
			words = append(words, dns.TypeToString[h.Rrtype])
		case *dns.SOA:
			words = append(words, "SOA "+h.Name)
		default:
			words = append(words, h.Name, strings.ReplaceAll(strings.TrimPrefix(rr.String(), h.String()), "\t", " "))
		}
	}
	return strings.Join(words, " ")
}

const someRules = `
nx.bad.example      CNAME .
bad.example         CNAME .
*.bad.example       CNAME *.
ok.bad.example      CNAME rpz-passthru.
drop.example        CNAME rpz-drop.
tcp.example         CNAME rpz-tcp-only.
local.example       A 192.0.2.1
local.example       A 192.0.2.2
local.example       TXT "x"
garden.example      CNAME walled.garden.
*.wild.example      CNAME *.garden.
none.example        CNAME nx.garden.
broken.example      CNAME broken.garden.
big.example         CNAME large.garden.
self.example        CNAME self.example.
a.signed.example    CNAME .
nx.signed.example   A 192.0.2.1
`

func TestActions(t *testing.T) {
	h := open(t, "ZONE\nede blocked", someRules)
	soa := " SOA rpz."
	for _, tt := range []struct {
		name, qname, qtype string
		a                  asked
		want               string
	}{
		{"no rule", "x.example.", "A", asked{}, "NOERROR ad ra x.example. 10.0.0.1"},
		{"NXDOMAIN", "bad.example.", "A", asked{}, "NXDOMAIN ra" + soa},
		{"case", "BAD.example.", "A", asked{}, "NXDOMAIN ra" + soa},
		{"EDE", "bad.example.", "A", asked{edns: true}, "NXDOMAIN ra" + soa + " 15 (Blocked): ()"},
		{"NODATA", "x.bad.example.", "TXT", asked{}, "NOERROR ra" + soa},
		{"passthru", "ok.bad.example.", "A", asked{}, "NOERROR ad ra ok.bad.example. 10.0.0.1"},
		{"drop", "drop.example.", "A", asked{}, "nothing"},
		{"TCP only, over UDP", "tcp.example.", "A", asked{}, "NOERROR tc ra"},
		{"TCP only, over TCP", "tcp.example.", "A", asked{tcp: true}, "NOERROR ad ra tcp.example. 10.0.0.1"},
		{"local data", "Local.example.", "A", asked{}, "NOERROR ra Local.example. 192.0.2.1 Local.example. 192.0.2.2" + soa},
		{"local data of another type", "local.example.", "AAAA", asked{}, "NOERROR ra" + soa},
		{"all local data", "local.example.", "ANY", asked{}, `NOERROR ra local.example. 192.0.2.1 local.example. 192.0.2.2 local.example. "x"` + soa},
		{"local CNAME", "garden.example.", "A", asked{}, "NOERROR ra garden.example. walled.garden. walled.garden. 10.0.0.1" + soa},
		{"local CNAME itself", "garden.example.", "CNAME", asked{}, "NOERROR ra garden.example. walled.garden." + soa},
		{"wildcard target", "x.wild.example.", "A", asked{}, "NOERROR ra x.wild.example. x.wild.example.garden. x.wild.example.garden. 10.0.0.1" + soa},
		{"a name that gets too long", strings.Repeat("a.", 118) + "wild.example.", "A", asked{}, "YXDOMAIN ra" + soa},
		{"a target that is not there", "none.example.", "A", asked{}, "NXDOMAIN ra none.example. nx.garden. SOA example." + soa},
		{"a target that fails", "broken.example.", "A", asked{}, "SERVFAIL ra"},
		{"a target with TC", "big.example.", "A", asked{}, "NOERROR tc ra big.example. large.garden." + soa},
		{"passthru in its obsolete form", "self.example.", "A", asked{}, "NOERROR ad ra self.example. 10.0.0.1"},
		{"the target of a CNAME", "alias.bad.example.", "A", asked{}, "NOERROR ra" + soa},
		{"not of one that is asked for", "alias.drop.example.", "CNAME", asked{}, "NOERROR ad ra"},
		{"a chain to NXDOMAIN", "alias.nx.bad.example.", "A", asked{}, "NXDOMAIN ra alias.nx.bad.example. nx.bad.example." + soa},
		{"a chain to a drop", "alias.drop.example.", "A", asked{}, "nothing"},
		{"a chain to local data", "alias.alias.local.example.", "A", asked{}, "NOERROR ra alias.alias.local.example. alias.local.example. alias.local.example. local.example. local.example. 192.0.2.1 local.example. 192.0.2.2" + soa},
		{"a chain to TCP only", "alias.tcp.example.", "A", asked{}, "NOERROR tc ra"},
		{"a chain to TCP only, over TCP", "alias.tcp.example.", "A", asked{tcp: true}, "NOERROR ad ra alias.tcp.example. tcp.example. tcp.example. 10.0.0.1"},
		{"a rule does not wait for a failure", "fail.bad.example.", "A", asked{}, "NOERROR ra" + soa},
		{"signed, for who asks for it", "a.signed.example.", "A", asked{do: true}, "NOERROR ad ra a.signed.example. 10.0.0.1 RRSIG"},
		{"signed, for others", "a.signed.example.", "A", asked{edns: true}, "NXDOMAIN ra" + soa + " 15 (Blocked): ()"},
		{"a signed denial", "nx.signed.example.", "A", asked{do: true}, "NXDOMAIN ad ra SOA example. NSEC"},
		{"unsigned, for who asks for signatures", "bad.example.", "A", asked{do: true}, "NXDOMAIN ra" + soa + " 15 (Blocked): ()"},
		{"a drop of what is not signed", "drop.example.", "A", asked{do: true}, "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, tt.a.judged = range []bool{false, true} {
				if got := short(ask(t, h, tt.qname, tt.qtype, tt.a)); got != tt.want {
					t.Errorf("judged before: %v: %s\nwant %s", tt.a.judged, got, tt.want)
				}
			}
		})
	}
	if r := h.policies[0].rules(); r.SOA.Hdr.Ttl != 60 {
		t.Errorf("the SOA record has become %v", r.SOA)
	}
}

// TestSigned: with break_dnssec signed answers are rewritten, too, and ANY like all else.
func TestSigned(t *testing.T) {
	h := open(t, "ZONE\nbreak_dnssec", someRules)
	if got := short(ask(t, h, "a.signed.example.", "A", asked{do: true})); got != "NXDOMAIN ra SOA rpz." {
		t.Error(got)
	}
	before := count(t, "rpz.", "signed")
	h = open(t, "ZONE", someRules)
	if got := short(ask(t, h, "a.signed.example.", "A", asked{do: true})); !strings.HasPrefix(got, "NOERROR ad") {
		t.Error(got)
	}
	if got := count(t, "rpz.", "signed") - before; got != 1 {
		t.Errorf("%v are counted as signed", got)
	}
}

// TestWithoutRD: a query without RD is filtered, in contrast to BIND.
func TestWithoutRD(t *testing.T) {
	h := open(t, "ZONE", someRules)
	m := new(dns.Msg).SetQuestion("bad.example.", dns.TypeA)
	m.RecursionDesired = false
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := h.ServeDNS(context.Background(), w, m); err != nil || w.Msg.Rcode != dns.RcodeNameError {
		t.Errorf("%v, %v", w.Msg, err)
	}
}

// TestOtherMessages: rules are for queries of class IN, or of any.
func TestOtherMessages(t *testing.T) {
	h := open(t, "ZONE\nrequired", "bad.example CNAME .\n24.0.0.0.10.rpz-ip CNAME .\n")
	for _, tt := range []struct {
		name   string
		opcode int
		class  uint16
		want   string
	}{
		{"a query", dns.OpcodeQuery, dns.ClassINET, "NXDOMAIN ra SOA rpz."},
		{"any class", dns.OpcodeQuery, dns.ClassANY, "NXDOMAIN ra SOA rpz."},
		{"another class", dns.OpcodeQuery, dns.ClassCHAOS, "NOERROR ad ra bad.example. 10.0.0.1"},
		{"NOTIFY", dns.OpcodeNotify, dns.ClassINET, "NOERROR ad ra bad.example. 10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg).SetQuestion("bad.example.", dns.TypeA)
			m.Opcode, m.Question[0].Qclass = tt.opcode, tt.class
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			if _, err := h.ServeDNS(context.Background(), w, m); err != nil {
				t.Fatal(err)
			}
			if got := short(w.Msg); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The query for the target of a local CNAME is not filtered again.
func TestTargetIsNotFiltered(t *testing.T) {
	h := open(t, "ZONE", "bad.example CNAME worse.example.\nworse.example CNAME bad.example.\n")
	h.lookup = func(ctx context.Context, s request.Request, name string, qtype uint16) (*dns.Msg, error) {
		return ask(t, h, name, dns.TypeToString[qtype], asked{ctx: ctx}), nil
	}
	if got := short(ask(t, h, "bad.example.", "A", asked{})); got != "NOERROR ra bad.example. worse.example. worse.example. 10.0.0.1 SOA rpz." {
		t.Error(got)
	}
}

func TestZonesInOrder(t *testing.T) {
	dir := t.TempDir()
	for zone, rules := range map[string]string{
		"allow.":  "ok.bad.example CNAME rpz-passthru.\n",
		"addr.":   "24.0.0.0.10.rpz-ip CNAME *.\nexact.example CNAME .\n",
		"block.":  "bad.example CNAME .\n*.bad.example CNAME .\nexact.example CNAME rpz-drop.\n",
		"logged.": "both.example CNAME rpz-drop.\nbad.example CNAME rpz-drop.\n",
		"six.":    "32.zz.db8.2001.rpz-ip CNAME .\n",
		"forced.": "x.forced.example CNAME rpz-passthru.\n24.0.1.0.10.rpz-ip A 192.0.2.1\n",
	} {
		writeZone(t, dir, zone, rules)
	}
	make := func(t *testing.T, lines ...string) *Handler {
		for i, l := range lines {
			words := strings.Fields(l)
			lines[i] = fmt.Sprintf("zone %s file %s %s", words[0], filepath.Join(dir, words[0]), strings.Join(words[1:], " "))
		}
		return open(t, strings.Join(lines, "\n"), "")
	}
	for _, tt := range []struct {
		name, zones, qname, qtype string
		want                      string
	}{
		{"passthru in an earlier zone", "allow., block.", "ok.bad.example.", "A", "NOERROR ad ra ok.bad.example. 10.0.0.1"},
		{"in a later zone it is too late", "block., allow.", "ok.bad.example.", "A", "NXDOMAIN ra SOA block."},
		{"the addresses of an earlier zone go first", "addr., block.", "bad.example.", "A", "NOERROR ra SOA addr."},
		{"not for other types", "addr., block.", "bad.example.", "TXT", "NXDOMAIN ra SOA block."},
		{"an address hint", "addr.", "other.example.", "HTTPS", "NOERROR ra SOA addr."},
		{"an IPv6 hint", "six.", "other.example.", "HTTPS", "NXDOMAIN ra SOA six."},
		{"a hint in SVCB", "six.", "other.example.", "SVCB", "NXDOMAIN ra SOA six."},
		{"a hint of a target", "six.", "alias.other.example.", "HTTPS", "NXDOMAIN ra alias.other.example. other.example. SOA six."},
		{"the hints of an earlier zone go first", "addr., block.", "bad.example.", "HTTPS", "NOERROR ra SOA addr."},
		{"those of a later zone do not", "block., addr.", "bad.example.", "A", "NXDOMAIN ra SOA block."},
		{"a name before the addresses of its zone", "addr., block.", "exact.example.", "A", "NXDOMAIN ra SOA addr."},
		{"addresses alone", "block., addr.", "other.example.", "A", "NOERROR ra SOA addr."},
		{"an alias decides before its target", "addr., block.", "alias.bad.example.", "A", "NXDOMAIN ra SOA block."},
		{"log goes on to later zones", "logged. policy log, block.", "bad.example.", "A", "NXDOMAIN ra SOA block."},
		{"the addresses of a logged zone let nobody wait", "addr. policy log, block.", "fail.bad.example.", "A", "NXDOMAIN ra SOA block."},
		{"those of another do", "addr., block.", "fail.bad.example.", "A", "SERVFAIL ad ra"},
		{"log alone", "logged. policy log", "both.example.", "A", "NOERROR ad ra both.example. 10.0.0.1"},
		{"nxdomain", "forced. policy nxdomain", "x.forced.example.", "A", "NXDOMAIN ra SOA forced."},
		{"nodata", "block. policy nodata", "bad.example.", "A", "NOERROR ra SOA block."},
		{"passthru", "block. policy passthru, addr.", "bad.example.", "A", "NOERROR ad ra bad.example. 10.0.0.1"},
		{"drop", "block. policy drop", "bad.example.", "A", "nothing"},
		{"tcp-only", "block. policy tcp-only", "bad.example.", "A", "NOERROR tc ra"},
		{"given", "block. policy given", "bad.example.", "A", "NXDOMAIN ra SOA block."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := make(t, strings.Split(tt.zones, ", ")...)
			if got := short(ask(t, h, tt.qname, tt.qtype, asked{})); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// punted returns the context of a guest's query.
func punted(hijacked bool) context.Context {
	return origin.NewContext(context.Background(), &origin.Origin{
		Port: "vm1", Network: origin.Network{1}, Destination: netip.MustParseAddrPort("192.0.2.53:53"), Hijacked: hijacked,
	})
}

// In hijack mode the answer may be that of the guest's own server, which does not come by here: a
// rule for the name is used at once.
func TestHijacked(t *testing.T) {
	h := open(t, "ZONE", "24.0.0.0.10.rpz-ip CNAME *.\n")
	second := writeZone(t, t.TempDir(), "second.", "bad.example CNAME .\na.signed.example CNAME .\n")
	h2, err := readHandler(caddy.NewTestController("dns", "rpz . {\nzone rpz. file "+h.policies[0].config.Path+"\nzone second. file "+second+"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	h2.Next = h.Next
	if err := h2.open(true); err != nil {
		t.Fatal(err)
	}
	defer h2.close()
	for _, tt := range []struct {
		qname           string
		do              bool
		service, hijack string
	}{
		{"bad.example.", false, "NOERROR ra SOA rpz.", "NXDOMAIN SOA second."},
		{"a.signed.example.", true, "NOERROR ad ra a.signed.example. 10.0.0.1 RRSIG", "NXDOMAIN SOA second."},
	} {
		for hijacked, want := range map[bool]string{false: tt.service, true: tt.hijack} {
			if got := short(ask(t, h2, tt.qname, "A", asked{ctx: punted(hijacked), do: tt.do})); got != want {
				t.Errorf("%s, hijacked %v: %s, want %s", tt.qname, hijacked, got, want)
			}
		}
	}
}

// A rule for the exact name of the question precedes a wildcard, an address, and rules of targets in its zone.
func TestExplainRemedy(t *testing.T) {
	const text = "bad.example CNAME .\n*.bad.example CNAME .\n24.0.0.0.10.rpz-ip CNAME .\n"
	const before, same = "give a policy zone before it a rule", "give it, or a policy zone before it, a rule"
	for _, tt := range []struct{ name, policy, qname, want string }{
		{"an exact name", "", "bad.example.", before},
		{"a wildcard", "", "x.bad.example.", same},
		{"an address", "", "other.example.", same},
		{"a target", "", "alias.bad.example.org.", same},
		{"a wildcard, and one action for all rules", " policy nxdomain", "x.bad.example.", before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, "ZONE"+tt.policy, text+"bad.example.org CNAME .\n")
			e := explain.New()
			ask(t, h, tt.qname, "A", asked{ctx: e.Context(t.Context())})
			e.End()
			found, rule := e.Report().Findings, " `"+strings.TrimSuffix(tt.qname, ".")+" CNAME rpz-passthru.`"
			if len(found) != 1 || !strings.HasSuffix(found[0].Remedy, tt.want+rule) {
				t.Errorf("%+v, want %s", found, tt.want+rule)
			}
			if tt.want != same {
				return
			}
			h = open(t, "ZONE", text+"bad.example.org CNAME .\n"+strings.TrimSuffix(tt.qname, ".")+" CNAME rpz-passthru.\n")
			if got := short(ask(t, h, tt.qname, "A", asked{})); !strings.HasPrefix(got, "NOERROR ad ra") || !strings.HasSuffix(got, " 10.0.0.1") {
				t.Errorf("with such a rule: %s", got)
			}
		})
	}
}

func TestOtherZones(t *testing.T) {
	h := open(t, "ZONE", "bad.example CNAME .\n")
	h.Zones = []string{"org."}
	if got := short(ask(t, h, "bad.example.", "A", asked{})); got != "NOERROR ad ra bad.example. 10.0.0.1" {
		t.Error(got)
	}
}

func TestMaxTTL(t *testing.T) {
	for properties, want := range map[string]uint32{"ZONE": 5, "ZONE\nmax_ttl 3600": 60, "ZONE\nmax_ttl 0": 0} {
		m := ask(t, open(t, properties, "local.example A 192.0.2.1\n"), "local.example.", "A", asked{})
		if got := m.Answer[0].Header().Ttl; got != want {
			t.Errorf("%s: TTL %d, want %d", properties, got, want)
		}
	}
}

// count returns the counter of a zone and action.
func count(t testing.TB, zone, action string) float64 {
	t.Helper()
	return testkit.Value(t, matches.WithLabelValues("", "", zone, action))
}

func TestMetadataMetricsAndLog(t *testing.T) {
	lines := testkit.CaptureLog(t)
	h := open(t, "ZONE\nlog 2", "*.bad.example CNAME .\nfine.bad.example CNAME rpz-passthru.\n24.0.0.0.10.rpz-ip CNAME *.\n")
	h.lines.limit.SetLimit(0) // two lines, however long the test takes
	before, nodata := count(t, "rpz.", "nxdomain"), count(t, "rpz.", "nodata")
	for _, tt := range []struct{ qname, labels string }{
		{"x.bad.example.", "rpz. nxdomain qname rpz."},
		{"other.example.", "rpz. nodata ip rpz."},
		{"nx.other.example.", "   "},
		{"y.bad.example.", "rpz. nxdomain qname rpz."},
		{"fine.bad.example.", "rpz. passthru qname "}, // somebody else answers
	} {
		ctx := metadata.ContextWithMetadata(punted(false))
		ctx = h.Metadata(ctx, request.Request{})
		ask(t, h, tt.qname, "A", asked{ctx: ctx, judged: true})
		var got []string
		for _, l := range []string{"zone", "action", "trigger", "answer"} {
			got = append(got, metadata.ValueFunc(ctx, "rpz/"+l)())
		}
		if s := strings.Join(got, " "); s != tt.labels {
			t.Errorf("%s: labels %q, want %q", tt.qname, s, tt.labels)
		}
	}
	if got := count(t, "rpz.", "nxdomain") - before; got != 2 {
		t.Errorf("%v counted", got)
	}
	if got := count(t, "rpz.", "nodata") - nodata; got != 1 {
		t.Errorf("%v of the address counted", got)
	}
	var hits []string
	for line := range strings.Lines(lines.String()) {
		if _, hit, ok := strings.Cut(strings.TrimSpace(line), "plugin/rpz: zone "); ok {
			hits = append(hits, hit)
		}
	}
	want := []string{
		`rpz. action nxdomain qname *.bad.example. name x.bad.example. type A from 10.240.0.1 port "vm1" network "01000000-0000-0000-0000-000000000000"`,
		`rpz. action nodata ip 10.0.0.0/24 name other.example. type A from 10.240.0.1 port "vm1" network "01000000-0000-0000-0000-000000000000"`,
	}
	if !slices.Equal(hits, want) { // the third is over the rate
		t.Errorf("%q\nwant %q", hits, want)
	}
}

func TestCollector(t *testing.T) {
	h := open(t, "ZONE", "bad.example CNAME .\n32.1.0.0.10.rpz-ip CNAME .\n32.1.0.0.10.rpz-client-ip CNAME .\nx NS y.\n")
	got := map[string]float64{}
	for _, s := range testkit.Collect(t, series.Collector(scrape)) {
		if s.Labels["zone"] != "rpz." || s.Labels["place"] != h.policies[0].config.Path {
			t.Errorf("%s has the labels %v", s.Name, s.Labels)
		}
		got[strings.TrimSpace(strings.TrimPrefix(s.Name, "coredns_rpz_")+" "+s.Labels["trigger"])] = s.Value
	}
	for key, want := range map[string]float64{"rules qname": 1, "rules ip": 1, "rules skipped": 1, "rules bad": 1, "serial": 7, "load_failures_total": 0} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if got["load_timestamp_seconds"] < 1e9 || got["checked_timestamp_seconds"] < 1e9 || got["rules_bytes"] < 20 {
		t.Errorf("%v", got)
	}
}

// Before the first transfer queries pass, or fail where the zone is required.
func TestBeforeTheFirstLoad(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		property, want string
		ready          bool
		problems       int // of the status, and findings
	}{{"", "NOERROR ad ra x.example. 10.0.0.1", true, 0}, {"required", "SERVFAIL", false, 1}} {
		h := open(t, "zone late. transfer "+l.Addr().String()+"\n"+tt.property, "")
		e := explain.New()
		if got := short(ask(t, h, "x.example.", "A", asked{ctx: e.Context(t.Context())})); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.property, got, tt.want)
		}
		e.End()
		found := e.Report().Findings
		if len(found) != tt.problems || tt.problems > 0 && (found[0].Code != api.CodePolicyZone || !strings.Contains(found[0].Text, "zone late. of "+l.Addr().String()+" has no rules")) {
			t.Errorf("%q: found %+v", tt.property, found)
		}
		status := api.Status{}
		addStatus(t.Context(), &status)
		if len(status.Problems) != tt.problems || len(status.Warnings) != 0 || tt.problems > 0 && !strings.Contains(status.Problems[0].Text, "SERVFAIL") {
			t.Errorf("%q: the status has %+v", tt.property, status)
		}
		reasons := h.NotReady()
		if h.Ready() != tt.ready || !tt.ready && (len(reasons) != 1 || !strings.HasPrefix(reasons[0], "zone late. of "+l.Addr().String()+" ")) {
			t.Errorf("%q: not ready: %q", tt.property, reasons)
		}
		h.close()
		h.policies = nil // closed
	}
}

// Blocks, and the Corefile before and after a reload, share the rules of a file.
func TestShared(t *testing.T) {
	h := open(t, "ZONE", "bad.example CNAME .\n")
	path := h.policies[0].config.Path
	other, err := readHandler(caddy.NewTestController("dns", "rpz . {\nzone rpz file "+path+" policy drop\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.open(true); err != nil {
		t.Fatal(err)
	}
	if h.policies[0].rules() != other.policies[0].rules() || len(source.All()) != 1 {
		t.Error("the rules are there twice")
	}
	h.close()
	h.policies = nil // closed
	if got := short(ask(t, other, "bad.example.", "A", asked{})); got != "nothing" || len(source.All()) != 1 {
		t.Errorf("%s, %d zones", got, len(source.All()))
	}
	other.close()
	if n := len(source.All()); n != 0 {
		t.Errorf("%d zones are left", n)
	}
}

// A file that can't be read ends a start that requires it, with the lines of the Corefile and of the file.
func TestUnreadable(t *testing.T) {
	path := writeZone(t, t.TempDir(), "rpz", "x CNAME .\ny CNA\n")
	text := "rpz . {\nzone rpz file " + path + "\nrequired\n}"
	want := "Testfile:2 - rpz .: zone rpz.: " + path + ": "
	h, err := readHandler(caddy.NewTestController("dns", text))
	if err != nil {
		t.Fatal(err)
	}
	err = h.open(true)
	h.close()
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "line: 5") {
		t.Errorf("%v, want %s", err, want)
	}
	err = Check(caddy.NewTestController("dns", text), nil)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Check: %v, want %s", err, want)
	}
	optional, err := readHandler(caddy.NewTestController("dns", strings.Replace(text, "required\n", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	err = optional.open(true)
	optional.close()
	if err := errors.Join(err, Check(caddy.NewTestController("dns", strings.Replace(text, "required\n", "", 1)), nil)); err != nil {
		t.Errorf("without required: %v", err)
	}
	if n := len(source.All()); n != 0 {
		t.Errorf("%d zones are left", n)
	}
}

// BenchmarkServeDNS passes on a query that no rule is for, with a zone of each kind.
func BenchmarkServeDNS(b *testing.B) {
	h := open(b, "ZONE", someRules+"24.0.9.0.10.rpz-ip CNAME .\n")
	answer := answerOf(new(dns.Msg).SetQuestion("www.innocent.example.", dns.TypeA))
	h.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
		return dns.RcodeSuccess, w.WriteMsg(answer)
	})
	ctx, w, r := context.Background(), &test.ResponseWriter{}, new(dns.Msg).SetQuestion("www.innocent.example.", dns.TypeA)
	b.ReportAllocs()
	for b.Loop() {
		if code, err := h.ServeDNS(ctx, w, r); code != dns.RcodeSuccess || err != nil {
			b.Fatal(code, err)
		}
	}
}
