// SPDX-License-Identifier: Apache-2.0

package test

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// egressCorefile has a policy for the guest red-vm1, in a mode of egress.
func egressCorefile(l *lab.Lab, mode, upstream string) string {
	return corefile(l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        rate off
        why
        control $CONTROL
    }
    metadata
    ready `+readyAddr+`
    prometheus `+metricsAddr+`
    errors
    log . "{/ofpunt/port} {name} {rcode} {/egress/policy} {/egress/verdict}"
    ovnhosts {
        southbound $SB
        fallthrough
    }
    egress {
        `+mode+` on
        policy ofpunt/port red-vm1 {
            allow allowed.example *.wild.example
        }
    }
    cache
    forward . `+upstream+`
}`)
}

// A guest with a policy gets the names that it allows, and its network's own. With strict on other names are asked of nobody.
// Another guest of its network, and a tenant with the same addresses, are untouched, cache or not.
func TestEgress(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	neighbour := aclGuest(n.Lab, "red", 1, 2)
	n.Sync()
	up := n.Upstream()
	var mu sync.Mutex
	var asked []string
	up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		mu.Lock()
		asked = append(asked, strings.ToLower(r.Question[0].Name))
		mu.Unlock()
		m := new(dns.Msg).SetReply(r)
		if r.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: net.IPv4(192, 0, 2, 1)})
		}
		_ = w.WriteMsg(m) // a client that has gone is no failure
	}))
	wasAsked := func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(asked, name)
	}

	s := serve(t, n.Lab, egressCorefile(n.Lab, "strict", up.Addr))
	for _, tt := range []struct {
		guest *lab.Guest
		name  string
		qtype uint16
		want  string
	}{
		{n.red, "allowed.example.", dns.TypeA, "NOERROR 192.0.2.1"},
		{n.red, "Allowed.EXAMPLE.", dns.TypeA, "NOERROR 192.0.2.1"},
		{n.red, "a.b.wild.example.", dns.TypeA, "NOERROR 192.0.2.1"},
		{n.red, "wild.example.", dns.TypeA, "NOERROR"},
		{n.red, `a\.wild.example.`, dns.TypeA, "NXDOMAIN"},
		{n.red, "other.example.", dns.TypeA, "NXDOMAIN"},
		{n.red, "secret.other.example.", dns.TypeTXT, "NXDOMAIN"},
		{n.red, "1.2.0.192.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		{n.red, "db.internal.", dns.TypeA, "NOERROR 10.0.1.101"}, // its own
		{neighbour, "neighbour.example.", dns.TypeA, "NOERROR 192.0.2.1"},
		{n.red, "neighbour.example.", dns.TypeA, "NXDOMAIN"}, // which cache has
		{n.blue, "blue.example.", dns.TypeA, "NOERROR 192.0.2.1"},
		{n.red, "blue.example.", dns.TypeA, "NXDOMAIN"},
	} {
		for _, resolver := range resolvers {
			if r, err := exchange(within(t, wait), tt.guest, resolver, tt.name, tt.qtype); err != nil || inShort(r) != tt.want {
				t.Errorf("%s asks for %s: %v, %v, want %s", tt.guest.Name, tt.name, r, err, tt.want)
			}
		}
	}
	for _, name := range []string{"other.example.", "wild.example.", `a\.wild.example.`, "secret.other.example.", "1.2.0.192.in-addr.arpa."} {
		if wasAsked(name) {
			t.Errorf("the upstream was asked for %s", name)
		}
	}
	// cache has no denial for others.
	if r, err := exchange(within(t, wait), n.blue, resolver4, "other.example.", dns.TypeA); err != nil || inShort(r) != "NOERROR 192.0.2.1" {
		t.Errorf("blue asks for a name that red was denied: %v, %v", r, err)
	}
	for what, ask := range map[string]func(*dns.Msg) (*dns.Msg, error){
		"UDP": func(q *dns.Msg) (*dns.Msg, error) {
			r, _, err := n.red.Exchange(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
			return r, err
		},
		"TCP": func(q *dns.Msg) (*dns.Msg, error) {
			r, _, err := n.red.ExchangeTCP(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
			return r, err
		},
	} {
		r, err := ask(new(dns.Msg).SetQuestion("other.example.", dns.TypeA).SetEdns0(1232, false))
		if err != nil || r.Rcode != dns.RcodeNameError || !strings.Contains(r.String(), "EDE: 17") {
			t.Errorf("%s with EDNS: %v, %v", what, r, err)
		}
		why := new(dns.Msg).SetQuestion("other.example.why.puntdns.", dns.TypeTXT)
		why.Question[0].Qclass = dns.ClassCHAOS
		if r, err := ask(why); err != nil || !strings.Contains(inShort(r), `"code=policy"`) || !strings.Contains(inShort(r), `"plugin=egress"`) {
			t.Errorf("why over %s: %v, %v", what, r, err)
		}
	}
	s.log(`red-vm1 other\.example\. NXDOMAIN ofpunt/port=red-vm1 denied`)
	s.log(`red-vm2 neighbour\.example\. NOERROR - -`)
	s.log(`policy ofpunt/port=red-vm1 denies name other\.example\. type A from port "red-vm1" network "[0-9a-f-]{36}"`)
	if got := s.metric("coredns_egress_verdicts_total", "policy", "ofpunt/port=red-vm1", "verdict", "denied"); got < 10 {
		t.Errorf("%v denials are counted", got)
	}
	s.endWell()

	s = serve(t, n.Lab, egressCorefile(n.Lab, "observe", up.Addr))
	for range 3 {
		if r, err := exchange(within(t, wait), n.red, resolver4, "observed.example.", dns.TypeA); err != nil || inShort(r) != "NOERROR 192.0.2.1" {
			t.Errorf("observed: %v, %v", r, err)
		}
	}
	const line = `policy ofpunt/port=red-vm1 would deny name observed\.example\.`
	s.log(line)
	if got := s.metric("coredns_egress_verdicts_total", "policy", "ofpunt/port=red-vm1", "verdict", "would-deny"); got != 3 || s.told(line) != 1 {
		t.Errorf("%v are counted, %d are in the log", got, s.told(line))
	}
	if learned, errs, status := s.operator().run("egress", "learn", "red-vm1"); status != 0 || !strings.Contains(learned, "policy ofpunt/port red-vm1 {\n    allow allowed.example. *.wild.example.\n    allow observed.example. # queries: 3\n}") {
		t.Errorf("exit status %d: %s%s", status, learned, errs)
	}
	// Behind the ACLs nothing opens for the guest.
	n.NBCTL("pg-add", "closed", "red-vm1", "--", "--type=port-group", "acl-add", "closed", "from-lport", "32766", "inport == @closed && ip && pkt.mark[31] == 0", "drop")
	n.Sync()
	withoutPolicy := func() error {
		var all api.Guests
		s.operator().ask(&all, "guests", "red-vm1")
		got := codesOf(all.Guests[0].Problems)
		return errorUnless(slices.Equal(got, []string{api.CodeEgressWithoutPolicy}), "%q", got)
	}
	n.Eventually("the ACLs", withoutPolicy)
	s.endWell()
	// The ACLs may stay when egress is taken out of the Corefile.
	egress := regexp.MustCompile(`(?s)\n    egress \{.*?\n    \}`)
	s = serve(t, n.Lab, egress.ReplaceAllString(egressCorefile(n.Lab, "observe", up.Addr), ""))
	n.Eventually("the ACLs, without egress", withoutPolicy)
}
