// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// exampleCorefile is Corefile.example in the lab, with an upstream and more plugins.
func exampleCorefile(t *testing.T, upstream, plugins string) string {
	t.Helper()
	text, err := os.ReadFile("../Corefile.example")
	if err != nil {
		t.Fatal(err)
	}
	corefile := string(text)
	for _, change := range []struct{ old, with string }{
		{"    ofpunt br-int {\n", "    " + plugins + "\n    ofpunt br-int {\n        openflow $MGMT\n        ovsdb $OVSDB\n        rate off\n"},
		{"unix:/var/run/ovn/ovnsb_db.sock", "$SB"},
		{"9.9.9.9 149.112.112.112", upstream},
	} {
		if !strings.Contains(corefile, change.old) {
			t.Fatalf("Corefile.example has no %q", change.old)
		}
		corefile = strings.Replace(corefile, change.old, change.with, 1)
	}
	return corefile
}

// With Corefile.example the upstream sees nothing of two tenants with the same addresses but
// outside names, and each has the names and reverse names of its own network.
func TestPrivate(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclSwitch(l, "blue", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.50 fd00:1::50", "nas.lan": "10.0.1.51"}, "red")
	red := aclGuest(l, "red", 1, 1)
	blue := l.Node.AddGuest(lab.Guest{
		Name: "blue-vm1", Switch: "blue", MAC: "02:00:00:00:01:11", Addrs: lab.Prefixes("10.0.1.11/24", "fd00:1::11/64"),
		Gateway4: lab.Addr("10.0.1.1"), Gateway6: lab.Addr("fd00:1::1"), PortSecurity: true,
	})
	l.Sync()
	zone := l.WriteFile("home.arpa", "$ORIGIN home.arpa.\n@ 60 SOA ns.home.arpa. me.home.arpa. 1 1 1 1 1\n@ 60 NS ns\nnas 60 A 192.0.2.3\n")
	// It would have all of them.
	up := l.Upstream("www.example.org. 60 IN A 192.0.2.80", "db.internal. 60 IN A 192.0.2.81", "nas.lan. 60 IN A 192.0.2.82",
		"vm1. 60 IN A 192.0.2.83", "11.1.0.10.in-addr.arpa. 60 IN PTR up.", "50.1.0.10.in-addr.arpa. 60 IN PTR up.", "9.9.168.192.in-addr.arpa. 60 IN PTR up.")
	s := serve(t, l, exampleCorefile(t, up.Addr, "file "+zone+" home.arpa"))

	const denied = "NXDOMAIN"
	reverse6 := "1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa."
	for _, q := range []struct {
		name      string
		qtype     uint16
		red, blue string
	}{
		{"11.1.0.10.in-addr.arpa.", dns.TypePTR, "NOERROR vm1.", denied},
		{reverse6, dns.TypePTR, "NOERROR vm1.", denied},
		{"50.1.0.10.in-addr.arpa.", dns.TypePTR, "NOERROR db.internal.", denied},
		{"9.9.168.192.in-addr.arpa.", dns.TypePTR, denied, denied},
		{"db.internal.", dns.TypeA, "NOERROR 10.0.1.50", denied},
		{"db.internal.", dns.TypeMX, "NOERROR", denied},
		{"nas.lan.", dns.TypeA, "NOERROR 10.0.1.51", denied},
		{"vm1.", dns.TypeA, "NOERROR 10.0.1.11", denied},
		{"wpad.", dns.TypeA, denied, denied},
		{"www.example.org.openstacklocal.", dns.TypeA, denied, denied},
		{"nas.home.arpa.", dns.TypeA, "NOERROR 192.0.2.3", "NOERROR 192.0.2.3"},
		{"nobody.home.arpa.", dns.TypeA, denied, denied},
		{"localhost.", dns.TypeA, "NOERROR 127.0.0.1", "NOERROR 127.0.0.1"},
		{"_dns.resolver.arpa.", dns.TypeSVCB, "NOERROR", "NOERROR"},
		{"www.example.org.", dns.TypeA, "NOERROR 192.0.2.80", "NOERROR 192.0.2.80"},
		{"10.in-addr.arpa.", dns.TypeDS, denied, denied}, // the upstream's; red has names below
	} {
		for _, asker := range []struct {
			g    *lab.Guest
			want string
		}{{blue, q.blue}, {red, q.red}, {blue, q.blue}} {
			want := asker.want
			if q.name == "10.in-addr.arpa." && asker.g == red {
				want = "NOERROR"
			}
			for _, resolver := range resolvers {
				r, err := exchange(within(t, wait), asker.g, resolver, q.name, q.qtype)
				if err != nil {
					t.Fatalf("%s asks %s for %s: %v", asker.g.Name, resolver, q.name, err)
				}
				if got := inShort(r); got != want || !r.RecursionAvailable {
					t.Errorf("%s asks %s for %s: %s, want %s, with RA\n%s", asker.g.Name, resolver, q.name, got, want, r)
				}
				if len(r.Answer) == 0 && (len(r.Ns) != 1 || r.Ns[0].Header().Rrtype != dns.TypeSOA) {
					t.Errorf("%s asks %s for %s: no SOA record: %s", asker.g.Name, resolver, q.name, r)
				}
			}
		}
	}
	var asked []string
	for _, q := range up.Asked() {
		if q.Name != "." { // a probe of forward's
			asked = append(asked, q.Name+" "+dns.TypeToString[q.Qtype])
		}
	}
	slices.Sort(asked)
	if got, want := slices.Compact(asked), []string{"10.in-addr.arpa. DS", "www.example.org. A"}; !slices.Equal(got, want) {
		t.Errorf("the upstream was asked %q, want %q", got, want)
	}
	if n := s.metric("coredns_private_answers_total", "class", "reverse", "answer", "nxdomain"); n == 0 {
		t.Error("the metric counts no reverse name")
	}
}

// In hijack mode private names go to the server that the guest has asked, and not to forward.
func TestPrivateHijack(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	n.peer.ServeDNS("10.0.0.12:53", "99.0.0.10.in-addr.arpa. 77 IN PTR own.lan.", "own.lan. 77 IN A 10.0.0.99", "own. 77 IN A 10.0.0.99")
	up := n.Upstream("www.example.org. 60 IN A 192.0.2.80", "99.0.0.10.in-addr.arpa. 60 IN PTR up.")
	s := serve(t, n.Lab, pipelineCorefile("address any", "fallthrough", "private\n    cache\n    forward . "+up.Addr))
	for range 2 {
		for _, q := range []struct {
			name  string
			qtype uint16
			want  string
		}{
			{"99.0.0.10.in-addr.arpa.", dns.TypePTR, "NOERROR own.lan."},
			{"own.lan.", dns.TypeA, "NOERROR 10.0.0.99"},
			{"own.", dns.TypeA, "NOERROR 10.0.0.99"},
			{"www.example.org.", dns.TypeA, "NOERROR 192.0.2.80"},
			{"db.internal.", dns.TypeA, "NOERROR 10.0.0.9"},
		} {
			if r, err := exchange(within(t, wait), n.vm, "10.0.0.12", q.name, q.qtype); err != nil || inShort(r) != q.want {
				t.Errorf("%s: %v, %v, want %s", q.name, r, err, q.want)
			}
		}
	}
	for _, q := range up.Asked() {
		if q.Name != "." && q.Name != "www.example.org." {
			t.Errorf("the upstream was asked for %s", q.Name)
		}
	}
	s.alive()
}
