// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// Each tenant is told of its own queries by the commands of the page, over UDP and TCP: who has answered, and by which
// code. A tenant with the same addresses is told nothing of them.
func TestWhy(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	upstream := n.Upstream("www.example.net. 60 IN A 192.0.2.7", "inside.example.net. 60 IN A 10.9.9.9")
	serve(t, n.Lab, corefile(n.Lab, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        why
    }
    ready `+readyAddr+`
    prometheus `+metricsAddr+`
    errors
    ovnhosts {
        southbound $SB
        fallthrough
    }
    private {
        rebind_protection on
    }
    cache
    forward . `+upstream.Addr+`
}`))
	ask := func(g *lab.Guest, name string, qtype uint16) {
		t.Helper()
		if _, err := exchange(within(t, wait), g, resolver4, name, qtype); err != nil {
			t.Fatalf("%s %s: %v", g.Name, name, err)
		}
	}
	why := func(g *lab.Guest, name string, has ...string) {
		t.Helper()
		q := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
		q.Question[0].Qclass = dns.ClassCHAOS
		udp, _, err := g.Exchange(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
		if err != nil {
			t.Fatal(err)
		}
		tcp, _, err := g.ExchangeTCP(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*dns.Msg{udp, tcp} {
			for _, want := range has {
				if !strings.Contains(fmt.Sprint(m.Answer), `"`+want+`"`) {
					t.Errorf("%s %s: %q is not in %v", g.Name, name, want, m.Answer)
				}
			}
			if len(has) == 0 && len(m.Answer) > 0 {
				t.Errorf("%s %s: %v", g.Name, name, m)
			}
		}
	}
	const zone = "why.puntdns."
	why(n.red, zone)
	ask(n.red, "db.internal.", dns.TypeA)
	why(n.red, zone, "name=db.internal.", "type=A", "code=answered", "plugin=ovnhosts")
	ask(n.red, "db.internal.", dns.TypeTXT)
	why(n.red, zone, "name=db.internal.", "type=TXT", "code=no-type", "plugin=ovnhosts")
	for _, plugin := range []string{"forward", "cache"} {
		ask(n.red, "www.example.net.", dns.TypeA)
		why(n.red, zone, "name=www.example.net.", "type=A", "code=answered", "plugin="+plugin)
	}
	ask(n.red, "www.example.org.", dns.TypeA)
	why(n.red, zone, "code=no-data", "rcode=NXDOMAIN", "plugin=forward", "upstream="+upstream.Addr)
	ask(n.red, "9.9.9.10.in-addr.arpa.", dns.TypePTR)
	why(n.red, zone, "code=private", "plugin=private")
	ask(n.red, "inside.example.net.", dns.TypeA)
	why(n.red, zone, "code=private", "plugin=private")
	why(n.blue, zone)
	why(n.blue, "www.example.org."+zone)

	_, blocks := pages.Section(t, "..", "ofpunt/README.md#why", "sh")
	_, printed := pages.Section(t, "..", "ofpunt/README.md#why", "txt")
	ask(n.red, "www.example.org.", dns.TypeA)
	for line := range strings.Lines(blocks[0].Text) {
		r := n.red.Dig(strings.Fields(strings.TrimPrefix(line, "dig "))...)
		for _, word := range []string{"name=www.example.org.", "type=A", "code=no-data", "text=there is no such name"} {
			if !strings.Contains(r.Out, `"`+word+`"`) || !strings.Contains(printed[0].Text, `"`+word+`"`) {
				t.Errorf("%s%s, the page has %s", line, r.Out, printed[0].Text)
			}
		}
	}
}
