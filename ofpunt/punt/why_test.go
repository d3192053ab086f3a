// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// outer is a plugin in front of others, with a writer of its own, as *cache* is.
type outer struct{ next plugin.Handler }

type outerWriter struct{ dns.ResponseWriter }

func (w *outerWriter) WriteMsg(m *dns.Msg) error { return w.ResponseWriter.WriteMsg(m) }

func (*outer) Name() string { return "outer" }

func (h *outer) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return plugin.NextOrFailure("outer", h.next, ctx, &outerWriter{w}, r)
}

// inner is the plugin that answers: names that begin with x do not exist, and names that begin with y are passed to
// another server.
type inner struct{}

func (inner) Name() string { return "inner" }

func (inner) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg).SetReply(r)
	switch qname := strings.ToLower(r.Question[0].Name); {
	case strings.HasPrefix(qname, "x"):
		m.Rcode = dns.RcodeNameError
	case strings.HasPrefix(qname, "y"):
		ctx.Value(origin.ExchangeKey{}).(origin.UpstreamSetter).SetUpstream(netip.MustParseAddrPort("192.0.2.1:53"))
		m.Rcode = dns.RcodeServerFailure
	default:
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: qname, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: []byte{192, 0, 2, 7}}}
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// A guest learns what has become of its own queries, also in hijack mode.
func TestWhy(t *testing.T) {
	const zone = "why.test."
	for _, hijack := range []bool{false, true} {
		c, peer := newChannel(t)
		guestIs(c.intake, "1")
		chains := &outer{inner{}}
		serve(c.intake, func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) { _, _ = chains.ServeDNS(ctx, w, r) }, func(config *Config) {
			config.Why = zone
			if hijack {
				config.Guests = hijacking()
			}
		})
		ask := func(qname string, qtype, class uint16) *dns.Msg {
			t.Helper()
			q := new(dns.Msg).SetQuestion(qname, qtype)
			q.Question[0].Qclass = class
			text, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			f, err := QueryFrame(netip.MustParseAddrPort("10.0.0.5:4321"), [6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddrPort("169.254.169.254:53"), text)
			if err != nil {
				t.Fatal(err)
			}
			punt := punttest.Punt
			if hijack {
				punt = punttest.ResumablePunt
			}
			send(t, peer, punt(f))
			m := new(dns.Msg)
			if err := m.Unpack(punttest.AnswerIn(t, packetOut(t, peer)).Payload); err != nil {
				t.Fatal(err)
			}
			return m
		}
		why := func(qname string, has ...string) {
			t.Helper()
			m := ask(qname, dns.TypeTXT, dns.ClassCHAOS)
			if len(m.Answer) != 1 || !m.Authoritative || m.Answer[0].Header().Class != dns.ClassCHAOS || m.Answer[0].Header().Ttl != 0 {
				t.Fatalf("hijack %v, %s: %v", hijack, qname, m)
			}
			for _, want := range has {
				if all := m.Answer[0].(*dns.TXT).Txt; !slices.Contains(all, want) {
					t.Errorf("hijack %v, %s: %q is not in %q", hijack, qname, want, all)
				}
			}
		}
		if m := ask(zone, dns.TypeTXT, dns.ClassCHAOS); m.Rcode != dns.RcodeSuccess || len(m.Answer) > 0 {
			t.Errorf("before any query: %v", m)
		}
		ask("X.test.", dns.TypeA, dns.ClassINET)
		why("Why.Test.", "name=x.test.", "type=A", "code=no-data", "rcode=NXDOMAIN", "plugin=punt")
		ask("y.test.", dns.TypeAAAA, dns.ClassINET)
		why(zone, "name=y.test.", "type=AAAA", "code=upstream", "rcode=SERVFAIL", "upstream=192.0.2.1:53")
		ask("z.test.", dns.TypeA, dns.ClassINET)
		why("x.test."+zone, "name=x.test.", "type=A", "code=no-data")
		why(zone, "name=z.test.", "type=A", "code=answered", "rcode=NOERROR") // its own question does not count
		if m := ask("q.test."+zone, dns.TypeTXT, dns.ClassCHAOS); m.Rcode != dns.RcodeNameError {
			t.Errorf("a name that it has not asked for: %v", m)
		}
		if m := ask(zone, dns.TypeA, dns.ClassCHAOS); m.Rcode != dns.RcodeSuccess || len(m.Answer) > 0 {
			t.Errorf("type A: %v", m)
		}
		if m := ask(zone, dns.TypeA, dns.ClassINET); len(m.Answer) != 1 {
			t.Errorf("class IN does not go to the plugins: %v", m)
		}
	}
}

// Without the property the plugins get the question.
func TestWhyOff(t *testing.T) {
	c, peer := newChannel(t)
	guestIs(c.intake, "1")
	s := serve(c.intake, reply, nil)
	send(t, peer, punttest.Punt(punttest.QueryFrame()))
	packetOut(t, peer)
	if s.lastQueries != nil {
		t.Error("queries are stored")
	}
}
