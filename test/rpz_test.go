// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// policy writes the file of a policy zone, in one step, and returns its path.
func policy(t *testing.T, l *lab.Lab, name, rules string) string {
	t.Helper()
	path := l.WriteFile(name+".new", "$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. 1 3600 600 86400 60\n@ NS ns.rpz.\n"+rules)
	if err := os.Rename(path, l.Dir+"/"+name); err != nil {
		t.Fatal(err)
	}
	return l.Dir + "/" + name
}

// expectDrop asks over UDP, and waits until the query is counted as dropped. No answer may have
// come by then.
func (s *server) expectDrop(g *lab.Guest, resolver, name string) {
	s.t.Helper()
	dropped := func() float64 {
		return s.metric("coredns_ofpunt_packet_ins_total", "result", "dropped", "reason", "unanswered")
	}
	before := dropped()
	ctx, cancel := context.WithCancel(within(s.t, wait))
	asked := make(chan error, 1)
	go func() {
		r, err := exchange(ctx, g, resolver, name, dns.TypeA)
		if err == nil {
			err = fmt.Errorf("%s asks for %s, and is told %s", g.Name, name, inShort(r))
		} else {
			err = nil
		}
		asked <- err
	}()
	s.l.Eventually("a query is dropped", func() error {
		if dropped() == before {
			return errors.New("none is counted")
		}
		return nil
	})
	cancel()
	if err := <-asked; err != nil {
		s.t.Error(err)
	}
}

// Tenants have policies of their own, by a view; a tenant's own names pass by them, and a file that
// changes is followed.
func TestRPZ(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclSwitch(l, "blue", 2)
	l.AddDNS(map[string]string{"own.example": "10.0.1.99"}, "red")
	red, blue := aclGuest(l, "red", 1, 1), aclGuest(l, "blue", 2, 1)
	l.Sync()
	up := l.Upstream(
		"bad.example. 60 IN A 192.0.2.1", "own.example. 60 IN A 192.0.2.2", "drop.example. 60 IN A 192.0.2.3",
		"tcp.example. 60 IN A 192.0.2.4", "alias.example. 60 IN CNAME bad.example.",
		"address.example. 60 IN A 192.0.2.66", "later.example. 60 IN A 192.0.2.7", "garden. 60 IN A 192.0.2.80")
	redRules := "bad.example CNAME garden.\nown.example CNAME .\ndrop.example CNAME rpz-drop.\ntcp.example CNAME rpz-tcp-only.\n28.64.2.0.192.rpz-ip CNAME *.\n"
	redZone := policy(t, l, "red.rpz", redRules)
	blueZone := policy(t, l, "blue.rpz", "bad.example CNAME .\nown.example A 192.0.2.90\n")
	block := func(view, zone string) string {
		return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
    }
    metadata
    view ` + view + ` {
        expr metadata('ofpunt/switch') == '` + view + `'
    }
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + `
    log . "{name} {rcode} {/rpz/zone} {/rpz/action} {/rpz/trigger}"
    errors
    ovnhosts {
        southbound $SB
        fallthrough
    }
    rpz {
        zone ` + view + `.rpz file ` + zone + `
        required
        log
    }
    cache
    forward . ` + up.Addr + `
}
`
	}
	s := serve(t, l, block("red", redZone)+block("blue", blueZone))
	for _, tt := range []struct {
		asker      *lab.Guest
		name, want string
	}{
		{red, "bad.example.", "NOERROR garden. 192.0.2.80"},
		{blue, "bad.example.", "NXDOMAIN"},
		{red, "own.example.", "NOERROR 10.0.1.99"}, // its own name
		{blue, "own.example.", "NOERROR 192.0.2.90"},
		{red, "alias.example.", "NOERROR bad.example. garden. 192.0.2.80"},
		{blue, "alias.example.", "NXDOMAIN bad.example."},
		{red, "address.example.", "NOERROR"},
		{blue, "address.example.", "NOERROR 192.0.2.66"},
		{blue, "drop.example.", "NOERROR 192.0.2.3"},
		{red, "later.example.", "NOERROR 192.0.2.7"},
	} {
		for _, resolver := range resolvers {
			if r, err := exchange(within(t, wait), tt.asker, resolver, tt.name, dns.TypeA); err != nil || inShort(r) != tt.want {
				t.Errorf("%s asks for %s: %v, %v, want %s", tt.asker.Name, tt.name, r, err, tt.want)
			}
		}
	}
	s.log(`bad\.example\. NXDOMAIN blue\.rpz\. nxdomain qname`)
	s.log(`zone red\.rpz\. action nodata ip 192\.0\.2\.64/28 name address\.example\. type A from 10\.0\.1\.11 port "red-vm1" network "[0-9a-f-]{36}"`)

	m, err := exchange(within(t, wait), red, resolver4, "tcp.example.", dns.TypeA)
	if err != nil || !m.Truncated || len(m.Answer) != 0 {
		t.Errorf("tcp-only over UDP: %v, %v", m, err)
	}
	m, _, err = red.ExchangeTCP(within(t, wait), new(dns.Msg).SetQuestion("tcp.example.", dns.TypeA), resolver4+":53")
	if err != nil || inShort(m) != "NOERROR 192.0.2.4" {
		t.Errorf("tcp-only over TCP: %v, %v", m, err)
	}
	s.expectDrop(red, resolver4, "drop.example.")
	s.log(`drop\.example\. DROPPED red\.rpz\. drop qname`)
	if got := s.metric("coredns_rpz_matches_total", "view", "red", "zone", "red.rpz.", "action", "drop"); got != 1 {
		t.Errorf("%v drops are counted", got)
	}

	// What is in cache is filtered at once, too.
	policy(t, l, "red.rpz", redRules+"later.example CNAME .\n")
	l.Eventually("the file is followed", func() error {
		r, err := exchange(within(t, wait), red, resolver4, "later.example.", dns.TypeA)
		if err == nil && inShort(r) != "NXDOMAIN" {
			err = errors.New(inShort(r))
		}
		return err
	})
}

// In hijack mode a query that a rule drops is not resumed, and one that no rule is for is.
func TestRPZHijack(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	server := n.peer.ServeDNS("10.0.0.12:53", "drop.example. 60 IN A 192.0.2.1", "bad.example. 60 IN A 192.0.2.2", "other.example. 60 IN A 192.0.2.3")
	// The addresses of the first zone wait for an answer that never comes by.
	addresses := policy(t, n.Lab, "addresses.rpz", "24.0.2.0.192.rpz-ip CNAME .\n")
	names := policy(t, n.Lab, "names.rpz", "drop.example CNAME rpz-drop.\nbad.example CNAME .\n")
	s := serve(t, n.Lab, pipelineCorefile("address any", "fallthrough", "rpz {\n zone addresses.rpz file "+addresses+"\n zone names.rpz file "+names+"\n required\n }"))
	s.expectDrop(n.vm, "10.0.0.12", "drop.example.")
	for name, want := range map[string]string{"bad.example.": "NXDOMAIN", "other.example.": "NOERROR 192.0.2.3"} {
		if r, err := exchange(within(t, wait), n.vm, "10.0.0.12", name, dns.TypeA); err != nil || inShort(r) != want {
			t.Errorf("%s: %v, %v, want %s", name, r, err, want)
		}
	}
	for name, want := range map[string]int{"drop.example.": 0, "bad.example.": 0, "other.example.": 1} {
		if got := server.Count(name); got != want {
			t.Errorf("the server was asked for %s %d times, want %d", name, got, want)
		}
	}
}
