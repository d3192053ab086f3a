// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugins"
)

// recorder is an upstream that answers each question with one address, and remembers them.
type recorder struct {
	address string // HOST:PORT
	mu      sync.Mutex
	asked   []string // guarded by mu
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &recorder{address: pc.LocalAddr().String()}
	serveUDP(t, pc, u)
	return u
}

// serveUDP answers on a socket until the test ends.
func serveUDP(t *testing.T, pc net.PacketConn, h dns.Handler) {
	t.Helper()
	started := make(chan struct{})
	s := &dns.Server{PacketConn: pc, Handler: h, NotifyStartedFunc: func() { close(started) }}
	ended := make(chan error, 1)
	go func() { ended <- s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		_ = s.Shutdown()
		<-ended
	})
}

// ServeDNS implements dns.Handler.
func (u *recorder) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	if q.Name != "." { // else it is a probe of forward
		u.mu.Lock()
		u.asked = append(u.asked, q.Name+" "+dns.TypeToString[q.Qtype])
		u.mu.Unlock()
	}
	m := new(dns.Msg).SetReply(r)
	if q.Qtype == dns.TypeA {
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 80)}}
	}
	_ = w.WriteMsg(m)
}

// saw returns what was asked, sorted and without repetition.
func (u *recorder) saw() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(u.asked)))
}

// With the plugins of Corefile.example no private question reaches the upstream, and names of a
// zone that there is are answered. The clients are those of a socket.
func TestExampleKeepsPrivateNames(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	zone := filepath.Join(dir, "home.arpa")
	if err := os.WriteFile(zone, []byte("$ORIGIN home.arpa.\n@ 60 SOA ns.home.arpa. me.home.arpa. 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.2\nnas 60 A 192.0.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("10.0.0.9 printer.local printer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newRecorder(t)

	example, err := os.ReadFile("../../Corefile.example")
	if err != nil {
		t.Fatal(err)
	}
	corefile := string(example)
	for _, change := range []struct{ expr, with string }{
		{`(?s)    ofpunt br-int \{.*?\n    \}\n`, "    bind 127.0.0.1\n    file " + zone + " home.arpa\n    hosts " + hosts + " {\n        fallthrough\n    }\n"},
		{`\n\. \{`, "\n.:0 {"},
		{`127\.0\.0\.1:\d+`, "127.0.0.1:0"},
		{`unix:/var/run/ovn/ovnsb_db.sock`, "unix:" + dir + "/none"},
		{`(?m)^    forward .*$`, "    forward . " + u.address},
	} {
		changed := regexp.MustCompile(change.expr).ReplaceAllString(corefile, change.with)
		if changed == corefile {
			t.Fatalf("Corefile.example has no %s", change.expr)
		}
		corefile = changed
	}
	i := corefiletest.Start(t, caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	t.Cleanup(func() {
		i.ShutdownCallbacks()
		_ = i.Stop()
	})
	ask := func(qname, qtype string) *dns.Msg {
		c := dns.Client{Timeout: time.Minute}
		m, _, err := c.Exchange(new(dns.Msg).SetQuestion(qname, dns.StringToType[qtype]), i.Servers()[0].LocalAddr().String())
		if err != nil {
			t.Fatalf("%s %s: %v", qname, qtype, err)
		}
		return m
	}

	for _, q := range []string{
		"8.0.0.10.in-addr.arpa. PTR", "1.0.16.172.in-addr.arpa. PTR", "1.31.31.172.in-addr.arpa. PTR", "254.1.168.192.in-addr.arpa. PTR",
		"1.0.64.100.in-addr.arpa. PTR", "254.169.254.169.in-addr.arpa. PTR", "2.0.0.127.in-addr.arpa. PTR", "b._dns-sd._udp.0.0.0.10.in-addr.arpa. PTR",
		"9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa. PTR",
		"db. A", "db. AAAA", "db. HTTPS", "wpad. A", "nobody.local. A", "www.example.org.lan. A", "vm1.openstacklocal. AAAA", "metadata.google.internal. A",
		"dc1.corp. SRV", "x.onion. A", "x.test. A", "x.invalid. MX", "x.alt. A", "x.service.arpa. SRV", "nobody.home.arpa. A",
	} {
		qname, qtype, _ := strings.Cut(q, " ")
		for range 2 { // the second answer is cache's
			m := ask(qname, qtype)
			if m.Rcode != dns.RcodeNameError || len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA {
				t.Errorf("%s: %v", q, m)
			}
		}
	}
	for q, want := range map[string]string{
		"localhost. A":                    "127.0.0.1",
		"www.localhost. AAAA":             "::1",
		"1.0.0.127.in-addr.arpa. PTR":     "localhost.",
		"_dns.resolver.arpa. SVCB":        "",
		"10.in-addr.arpa. DNSKEY":         "",
		"10.in-addr.arpa. NS":             "10.in-addr.arpa.",
		"nas.home.arpa. A":                "192.0.2.3",
		"ns.home.arpa. AAAA":              "",
		"printer.local. A":                "10.0.0.9",
		"printer. A":                      "10.0.0.9",
		"9.0.0.10.in-addr.arpa. PTR":      "printer.local. printer.",
		"www.example.org. A":              "192.0.2.80",
		"com. A":                          "192.0.2.80",
		"10.in-addr.arpa. DS":             "",
		"internal. DS":                    "",
		"org. DNSKEY":                     "",
		"1.113.0.203.in-addr.arpa. DNAME": "",
	} {
		qname, qtype, _ := strings.Cut(q, " ")
		m := ask(qname, qtype)
		if got := strings.Join(testkit.Data(m.Answer), " "); got != want {
			t.Errorf("%s: %q, want %q: %v", q, got, want, m)
		}
	}
	if got, want := u.saw(), []string{"10.in-addr.arpa. DS", "com. A", "internal. DS", "org. DNSKEY", "www.example.org. A"}; !slices.Equal(got, want) {
		t.Errorf("the upstream was asked %q, want %q", got, want)
	}
}
