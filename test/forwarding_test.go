// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// forwarding is two tenants with the same addresses, and servers that they may name.
type forwarding struct {
	overlap
	*server
	t        *testing.T
	upstream *lab.DNSServer
	// outside is a host with the servers of tenants.
	outside *lab.Host
}

// newForwarding starts the node, whose upstream knows all names of the test.
func newForwarding(t *testing.T) *forwarding {
	t.Helper()
	f := &forwarding{overlap: newOverlap(t), t: t}
	// The node is connected to 9.9.0.0/24, has routes to the other networks, and owns 10.1.8.0/24.
	f.outside = f.Node.Outside(netip.MustParsePrefix("9.9.0.0/24"), "10.1.0.0/16", "10.2.0.0/16")
	if _, err := f.Node.Exec(within(t, wait), "ip", "route", "add", "local", "10.1.8.0/24", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	f.upstream = f.Upstream()
	f.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 1}, Txt: []string{"upstream"}}}
		_ = w.WriteMsg(m) // a client that has gone is no failure
	}))
	f.server = serve(t, f.Lab, f.corefile(""))
	return f
}

// corefile is that of the node, with properties of ofpunt.
func (f *forwarding) corefile(properties string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
        ` + properties + `
    }
    errors
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ovnhosts {
        southbound $SB
        northbound $NB
        domain internal
        fallthrough
    }
    ovnforward {
        allow 10.1.0.0/16
        deny 10.1.9.0/24
        ports 5353
    }
    private {
        rebind_protection on
    }
    cache
    forward . ` + f.upstream.Addr + `
}
`
}

// names starts a server on a host that has the same names as all others, and says which it is.
func (f *forwarding) names(on *lab.Host, addr string) *lab.DNSServer {
	f.t.Helper()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		f.t.Fatal(err)
	}
	long := ""
	for range 20 {
		long += fmt.Sprintf(" %q", strings.Repeat("x", 100))
	}
	return on.ServeDNS(addr,
		fmt.Sprintf("www.corp.example. 600 IN A %s", host), fmt.Sprintf("x.internal. 600 IN A %s", host), fmt.Sprintf("db.internal. 600 IN A %s", host),
		fmt.Sprintf("9.8.7.10.in-addr.arpa. 600 IN PTR is-%s.example.", strings.ReplaceAll(host, ".", "-")), "long.corp.example. 600 IN TXT"+long)
}

// set has a row forward what the text says, by the command of the documentation.
func (f *forwarding) set(table, row, text string) {
	f.t.Helper()
	f.NBCTL("set", table, row, `external_ids:dns-forward="`+text+`"`)
}

// expect asks until the answer is the one that a change brings.
func (f *forwarding) expect(g *lab.Guest, name string, qtype uint16, want string) {
	f.t.Helper()
	f.Eventually(name+" is "+want, func() error {
		r, err := exchange(within(f.t, wait), g, resolver4, name, qtype)
		if err == nil && inShort(r) != want {
			err = errors.New(inShort(r))
		}
		return err
	})
}

// Two tenants with the same addresses forward the same zones to servers of their own, as OVN says at
// the moment. Neither is told what the other's have said, and nobody else is asked.
func TestForwarding(t *testing.T) {
	t.Parallel()
	f := newForwarding(t)
	red, blue := f.names(f.outside, "10.1.0.53:53"), f.names(f.outside, "10.1.0.63:5353")
	f.names(f.outside, "10.1.0.54:53")
	router := f.names(f.outside, "10.1.0.83:53")
	f.set("Logical_Switch", "red", "corp.example=10.1.0.53;10.in-addr.arpa=10.1.0.53;internal=10.1.0.53")
	f.set("Logical_Switch", "blue", "corp.example=10.1.0.63:5353;10.in-addr.arpa=10.1.0.63:5353;wrong")
	f.expect(f.red, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.53")
	f.expect(f.blue, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.63")
	asked := f.upstream.Count("www.corp.example.") // before the labels were followed

	t.Run("each its own", func(t *testing.T) {
		ctx := within(t, 2*wait)
		for range 3 {
			for _, resolver := range resolvers {
				for g, own := range map[*lab.Guest]string{f.red: "10.1.0.53", f.blue: "10.1.0.63"} {
					check(ctx, t, g, resolver, "WWW.corp.example.", dns.TypeA, "NOERROR "+own)
					check(ctx, t, g, resolver, "none.corp.example.", dns.TypeA, "NXDOMAIN")
					check(ctx, t, g, resolver, "9.8.7.10.in-addr.arpa.", dns.TypePTR, "NOERROR is-"+strings.ReplaceAll(own, ".", "-")+".example.")
				}
			}
		}
		for _, s := range []*lab.DNSServer{red, blue} {
			// The denial of none.corp.example is in cache for 5 s only.
			for _, name := range []string{"www.corp.example.", "9.8.7.10.in-addr.arpa."} {
				if got := s.Count(name); got != 1 {
					t.Errorf("%s was asked %d times for %s, want once: the rest is in cache", s.Addr, got, name)
				}
			}
		}
	})
	t.Run("names of OVN come first", func(t *testing.T) {
		ctx := within(t, wait)
		check(ctx, t, f.red, resolver4, "db.internal.", dns.TypeA, "NOERROR 10.0.1.101")
		check(ctx, t, f.red, resolver4, "x.internal.", dns.TypeA, "NOERROR 10.1.0.53")
		check(ctx, t, f.red, resolver4, "db.internal.", dns.TypeTXT, "NOERROR")
		check(ctx, t, f.blue, resolver4, "x.internal.", dns.TypeA, "NXDOMAIN")
	})
	t.Run("TCP", func(t *testing.T) {
		ctx := within(t, wait)
		r, _, err := f.red.Exchange(ctx, new(dns.Msg).SetQuestion("long.corp.example.", dns.TypeTXT), net.JoinHostPort(resolver4, "53"))
		if err != nil || !r.Truncated {
			t.Errorf("over UDP: %v, %v, want TC", r, err)
		}
		for range 2 {
			r, _, err = f.red.ExchangeTCP(ctx, new(dns.Msg).SetQuestion("long.corp.example.", dns.TypeTXT), net.JoinHostPort(resolver6, "53"))
			if err != nil || r.Truncated || len(r.Answer) != 1 || len(r.Answer[0].(*dns.TXT).Txt) != 20 {
				t.Errorf("over TCP: %v, %v, want it whole", r, err)
			}
		}
		if got := red.Count("long.corp.example."); got != 2 {
			t.Errorf("the server was asked %d times, want once by each protocol", got)
		}
	})
	t.Run("a change", func(t *testing.T) {
		f.set("Logical_Switch", "red", "corp.example=10.1.0.54")
		f.expect(f.red, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.54")
		check(within(t, wait), t, f.blue, resolver4, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.63")
		check(within(t, wait), t, f.red, resolver4, "x.internal.", dns.TypeA, "NXDOMAIN")
		if got := blue.Count("www.corp.example."); got != 1 {
			t.Errorf("blue's server was asked %d times, want once", got)
		}
		f.set("Logical_Switch", "red", "corp.example=10.1.0.53")
		f.expect(f.red, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.53")
	})
	t.Run("a router", func(t *testing.T) {
		f.set("Logical_Router", "r-red", "corp.example=10.1.0.83;internal=10.1.0.83")
		f.expect(f.red, "x.internal.", dns.TypeA, "NOERROR 10.1.0.83")
		check(within(t, wait), t, f.red, resolver4, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.53")
		f.NBCTL("remove", "Logical_Switch", "red", "external_ids", "dns-forward")
		f.expect(f.red, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.83")
		check(within(t, wait), t, f.blue, resolver4, "x.internal.", dns.TypeA, "NXDOMAIN")
		if router.Count("www.corp.example.") == 0 {
			t.Error("the router's server was not asked")
		}
	})
	t.Run("the first server is dead", func(t *testing.T) {
		red.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
		f.set("Logical_Switch", "red", "corp.example=10.1.0.53,10.1.0.54")
		f.expect(f.red, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.54")
		f.Eventually("it is known to be down", func() error {
			if f.metric("coredns_ovnforward_upstreams", "health", "down") != 1 {
				return errors.New(f.metrics())
			}
			return nil
		})
		before := red.Count("www2.corp.example.")
		check(within(t, wait), t, f.red, resolver4, "www2.corp.example.", dns.TypeA, "NXDOMAIN")
		if red.Count("www2.corp.example.") != before {
			t.Error("a server that is down was asked")
		}
		// With one server alone the first answer is there in time to be asked for again.
		f.set("Logical_Switch", "red", "corp.example=10.1.0.53")
		seen := map[string]bool{}
		f.Eventually("a failure is told from one in cache", func() error {
			r, _, err := f.red.Exchange(within(t, wait), new(dns.Msg).SetQuestion("www3.corp.example.", dns.TypeTXT).SetEdns0(1232, false), net.JoinHostPort(resolver4, "53"))
			if err != nil {
				return err
			}
			for _, ede := range []string{"EDE: 22", "EDE: 13"} {
				seen[ede] = seen[ede] || r.Rcode == dns.RcodeServerFailure && strings.Contains(r.String(), ede)
			}
			if !seen["EDE: 22"] || !seen["EDE: 13"] {
				return fmt.Errorf("%v so far, the last one %v; expected SERVFAIL with EDE 22, and with 13 from cache", seen, r)
			}
			return nil
		})
		red.SetHandler(nil)
		f.expect(f.red, "www4.corp.example.", dns.TypeA, "NXDOMAIN")
	})
	if got := f.upstream.Count("www.corp.example."); got != asked {
		t.Errorf("the upstream was asked %d times for a name that is forwarded, want %d", got, asked)
	}
	for _, name := range []string{"www2.corp.example.", "www3.corp.example.", "9.8.7.10.in-addr.arpa.", "x.internal."} {
		if got := f.upstream.Count(name); got > 0 {
			t.Errorf("the upstream was asked %d times for %s", got, name)
		}
	}
	t.Run("refused", f.refused)
	t.Run("hijack mode", f.hijacked)
	f.endWell()
}

// refused checks that servers which a tenant must not name get no packet, and the names no answer.
func (f *forwarding) refused(t *testing.T) {
	refusals := []struct {
		on           *lab.Host
		addr, reason string
	}{
		{f.Node.Host, "127.0.0.53:53", "node"}, {f.Node.Host, "9.9.0.1:53", "node"}, {f.Node.Host, "10.1.8.53:53", "node"},
		{f.outside, "9.9.0.2:53", "connected"}, {f.outside, "10.2.0.53:53", "special"},
		{f.outside, "10.1.9.53:53", "denied"}, {f.outside, "10.1.0.53:54", "port"},
	}
	var servers []*lab.DNSServer
	text := ""
	for i, r := range refusals {
		servers = append(servers, f.names(r.on, r.addr))
		text += fmt.Sprintf("refused%d.example=%s;", i, r.addr)
	}
	f.set("Logical_Switch", "red", text+"mapped.example=[::ffff:10.2.0.53]:53;resolver.example="+resolver4+";corp.example=10.1.0.53")
	f.expect(f.red, "www.refused0.example.", dns.TypeTXT, "SERVFAIL")
	ctx := within(t, 2*wait)
	for i := range refusals {
		check(ctx, t, f.red, resolver4, fmt.Sprintf("www.refused%d.example.", i), dns.TypeTXT, "SERVFAIL")
	}
	check(ctx, t, f.red, resolver4, "www.mapped.example.", dns.TypeTXT, "SERVFAIL")
	check(ctx, t, f.red, resolver4, "www.resolver.example.", dns.TypeTXT, "SERVFAIL")
	check(ctx, t, f.red, resolver4, "www.corp.example.", dns.TypeA, "NOERROR 10.1.0.53")
	for _, s := range servers {
		if asked := s.Asked(); len(asked) > 0 {
			t.Errorf("%s was asked %v", s.Addr, asked)
		}
	}
	f.Eventually("they are counted", func() error {
		for reason, want := range map[string]float64{"node": 3, "connected": 1, "special": 2, "denied": 1, "port": 1, "unusable": 1} {
			if got := f.metric("coredns_ovnforward_refused_servers", "reason", reason); got != want {
				return fmt.Errorf("%s: %v, want %v", reason, got, want)
			}
		}
		return nil
	})

	// What the node gets as its own address is refused as well.
	check(ctx, t, f.red, resolver4, "new1.corp.example.", dns.TypeA, "NXDOMAIN")
	if _, err := f.Node.Exec(ctx, "ip", "addr", "add", "10.1.0.53/32", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	n := 1
	f.Eventually("the new address is refused", func() error {
		n++
		r, err := exchange(ctx, f.red, resolver4, fmt.Sprintf("new%d.corp.example.", n), dns.TypeA)
		if err == nil && r.Rcode != dns.RcodeServerFailure {
			err = errors.New(inShort(r))
		}
		return err
	})
}

// hijacked checks that a forwarded zone has precedence over the server that a guest asks.
func (f *forwarding) hijacked(t *testing.T) {
	f.reload(corefile(f.Lab, f.corefile("address any")))
	f.Eventually("another server's query is answered", func() error {
		// What is asked before the flows are there goes on to that server, which does not exist.
		r, err := exchange(within(t, wait/10), f.blue, "198.51.100.1", "www.corp.example.", dns.TypeA)
		if err == nil && inShort(r) != "NOERROR 10.1.0.63" {
			err = errors.New(inShort(r))
		}
		return err
	})
	check(within(t, wait), t, f.blue, "198.51.100.1", "9.8.7.10.in-addr.arpa.", dns.TypePTR, "NOERROR is-10-1-0-63.example.")
}
