// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// views is a Corefile with a block, a cache and an upstream for each tenant.
func views(red, blue *lab.DNSServer) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
    }
    metadata
    view red {
        expr metadata('ofpunt/switch') == 'red'
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache 30
    forward . ` + red.Addr + `
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
}
. {
    ofpunt br-int
    metadata
    view blue {
        expr metadata('ofpunt/switch') == 'blue'
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache 30
    forward . ` + blue.Addr + `
    prometheus ` + metricsAddr + `
}
`
}

// alternate has both tenants ask for a name many times, with several queries of
// each on the way at any moment.
func alternate(t *testing.T, n overlap, name, red, blue string) {
	t.Helper()
	ctx := within(t, 2*wait)
	var wrong mistakes
	var wg sync.WaitGroup
	for client := range 4 {
		for g, want := range map[*lab.Guest]string{n.red: red, n.blue: blue} {
			wg.Go(func() {
				for range 100 {
					got := ""
					r, err := exchange(ctx, g, resolvers[client%2], name, dns.TypeA)
					if err != nil {
						got = err.Error()
					} else {
						got = inShort(r)
					}
					if got != want {
						wrong.add(fmt.Sprintf("%s asks for %s: %s, want %s", g.Name, name, got, want))
					}
				}
			})
		}
	}
	wg.Wait()
	wrong.report(t)
}

// What one tenant's upstream says, with lies and records that nobody asked for in
// it, is nothing to another tenant.
func TestPoisonUpstream(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	const lie, truth = "NOERROR 192.0.2.66", "NOERROR 192.0.2.1"
	liar, honest := n.Upstream(), n.Upstream("bank.example. 60 IN A 192.0.2.1")
	liar.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Authoritative = true
		record := func(name string) dns.RR {
			return &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 66)}
		}
		m.Answer = append(m.Answer, record(r.Question[0].Name))
		for _, name := range []string{"bank.example.", "blue.internal.", "db.internal."} {
			m.Ns = append(m.Ns, &dns.NS{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 3600}, Ns: name})
			m.Extra = append(m.Extra, record(name))
		}
		_ = w.WriteMsg(m)
	}))
	s := serve(t, n.Lab, views(liar, honest))
	for range 3 {
		alternate(t, n, "bank.example.", lie, truth)
		alternate(t, n, "evil.example.", lie, "NXDOMAIN")
		// A name that blue has, and red asks its upstream for.
		alternate(t, n, "blue.internal.", lie, "NOERROR 10.0.1.203")
		alternate(t, n, "db.internal.", "NOERROR 10.0.1.101", "NOERROR 10.0.1.201")
	}
	if liar.Count("bank.example.") == 0 || honest.Count("bank.example.") == 0 {
		t.Error("an upstream was never asked")
	}
	if hits := s.metric("coredns_cache_hits_total"); hits < 1000 {
		t.Errorf("the caches answered %v times, the test shows little", hits)
	}
	s.endWell()
}

// The cache plugin knows no tenant, so it has to see none of the names that
// tenants have.
func TestPoisonNames(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	up := n.Upstream("www.example.org. 60 IN A 192.0.2.1")
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "cache 30\n    forward . "+up.Addr))
	alternate(t, n, "db.internal.", "NOERROR 10.0.1.101", "NOERROR 10.0.1.201")
	alternate(t, n, "peer.", "NOERROR 10.0.1.102", "NOERROR 10.0.1.202")
	for _, name := range []string{"coredns_cache_requests_total", "coredns_cache_entries"} {
		if got := s.metric(name); got != 0 {
			t.Errorf("%s is %v after names of tenants", name, got)
		}
	}
	alternate(t, n, "www.example.org.", "NOERROR 192.0.2.1", "NOERROR 192.0.2.1")
	for _, name := range []string{"coredns_cache_requests_total", "coredns_cache_entries"} {
		if got := s.metric(name); got == 0 {
			t.Errorf("%s is 0 after a name of the upstream, the test shows nothing", name)
		}
	}
	s.endWell()
}

// A guest that knows all that an upstream's answer has to match, and comes first,
// is not taken for the upstream.
func TestPoisonResponses(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("red-mallory", 66)
	n.Sync()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			type asked struct {
				query *dns.Msg
				from  netip.AddrPort
			}
			up := n.Upstream()
			heard, release := make(chan asked, 1), make(chan struct{})
			up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
				heard <- asked{r, w.RemoteAddr().(*net.UDPAddr).AddrPort()}
				<-release
				m := new(dns.Msg).SetReply(r)
				m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)})
				_ = w.WriteMsg(m)
			}))
			s := serve(t, n.Lab, pipelineCorefile(mode.properties, "fallthrough", "cache 30\n    forward . "+up.Addr))
			n.Node.Revalidate()
			w := watch(t, mallory)[0]
			for i := range 5 {
				name := fmt.Sprintf("n%d.example.", i)
				answer := make(chan string, 1)
				go func() {
					r, err := exchange(within(t, wait), n.vm, resolver4, name, dns.TypeA)
					if err != nil {
						answer <- err.Error()
						return
					}
					answer <- inShort(r)
				}()
				var a asked
				select {
				case a = <-heard:
				case <-time.After(wait):
					t.Fatalf("the upstream is not asked\n%s", s.Log())
				}
				forged := new(dns.Msg).SetReply(a.query)
				forged.Answer = append(forged.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 66)})
				result := map[string]string{"service": "dropped", "hijack": "resumed"}[mode.name]
				before := s.punted(result, "response")
				asker := a.from.String()
				punted := 0
				for _, f := range []udpFrame{
					{src: up.Addr, dst: asker},
					{src: up.Addr, dst: netip.AddrPortFrom(lab.Addr(resolver4), a.from.Port()).String()},
					{src: up.Addr, dst: resolver4 + ":53"},
					{src: resolver4 + ":53", dst: asker},
					{src: resolver4 + ":53", dst: resolver4 + ":53"},
					{src: "10.0.0.66:53", dst: asker},
					{src: "10.0.0.66:53", dst: resolver4 + ":53"},
					{src: "10.0.0.66:53", dst: netip.AddrPortFrom(lab.Addr("10.0.0.1"), a.from.Port()).String()},
				} {
					f.srcMAC, f.dstMAC, f.ttl, f.payload = mallory.MAC, redGateway, 64, pack(t, forged)
					if netip.MustParseAddrPort(f.dst).Port() == dnsPort && !netip.MustParseAddrPort(f.src).Addr().IsLoopback() {
						punted++
					}
					if err := w.raw.Send(f.build(t)); err != nil {
						t.Fatal(err)
					}
				}
				// They have been dealt with before the upstream answers.
				s.reaches(float64(before+punted), "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", result, "reason", "response")
				w.answers(t)
				release <- struct{}{}
				if got := <-answer; got != "NOERROR 192.0.2.1" {
					t.Errorf("%s: %s, want what the upstream says", name, got)
				}
				// What the cache has.
				expect(t, n.peer, "NOERROR 192.0.2.1", "@"+resolver4, name)
			}
			s.endWell()
		})
	}
}
