// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/plugins"
	"github.com/puntdns/puntdns/test/lab"
)

// signedRoot is an upstream whose root zone is signed. In it 10.in-addr.arpa and home.arpa are
// delegated without a DS record, as in the DNS, and internal is nothing.
type signedRoot struct {
	key  *dns.DNSKEY
	sign crypto.Signer
	// sets are the records of the zone, by owner and type; owners are in canonical order (RFC
	// 4034, section 6.1).
	sets   map[string]map[uint16][]dns.RR
	owners []string
}

func newSignedRoot(t *testing.T) *signedRoot {
	t.Helper()
	z := &signedRoot{sets: map[string]map[uint16][]dns.RR{}, owners: []string{".", "home.arpa.", "10.in-addr.arpa.", "www.example."}}
	z.key = &dns.DNSKEY{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 60}, Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256}
	private, err := z.key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	z.sign = private.(crypto.Signer)
	rrs := []dns.RR{z.key}
	for _, s := range []string{". 60 SOA a.root. b.root. 1 1 1 1 60", ". 60 NS a.root.", "home.arpa. 60 NS a.root.", "10.in-addr.arpa. 60 NS a.root.", "www.example. 60 A 192.0.2.80"} {
		rr, err := dns.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	for _, rr := range rrs {
		h := rr.Header()
		if z.sets[h.Name] == nil {
			z.sets[h.Name] = map[uint16][]dns.RR{}
		}
		z.sets[h.Name][h.Rrtype] = append(z.sets[h.Name][h.Rrtype], rr)
	}
	return z
}

// signed returns a set of records and its signature.
func (z *signedRoot) signed(set ...dns.RR) []dns.RR {
	now := time.Now()
	sig := &dns.RRSIG{
		Hdr: dns.RR_Header{Ttl: 60}, Algorithm: z.key.Algorithm, KeyTag: z.key.KeyTag(), SignerName: ".",
		Inception: uint32(now.Add(-time.Hour).Unix()), Expiration: uint32(now.Add(time.Hour).Unix()),
	}
	if err := sig.Sign(z.sign, set); err != nil {
		panic(err) // in a test
	}
	return append(slices.Clone(set), sig)
}

// nsec returns the signed NSEC record that matches or covers a name.
func (z *signedRoot) nsec(name string) []dns.RR {
	at := 0
	for i, o := range z.owners {
		if canonical(o) <= canonical(name) {
			at = i
		}
	}
	types := []uint16{dns.TypeRRSIG, dns.TypeNSEC}
	for rrtype := range z.sets[z.owners[at]] {
		types = append(types, rrtype)
	}
	slices.Sort(types)
	next := z.owners[(at+1)%len(z.owners)]
	return z.signed(&dns.NSEC{Hdr: dns.RR_Header{Name: z.owners[at], Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: 60}, NextDomain: next, TypeBitMap: types})
}

// canonical returns a text by which names are in canonical order.
func canonical(name string) string {
	labels := dns.SplitDomainName(name)
	slices.Reverse(labels)
	return strings.Join(labels, "\x00")
}

// ServeDNS implements dns.Handler.
func (z *signedRoot) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	m := new(dns.Msg).SetReply(r)
	m.SetEdns0(4096, true)
	set := z.sets[q.Name][q.Qtype]
	exists := slices.ContainsFunc(z.owners, func(o string) bool { return dns.IsSubDomain(q.Name, o) })
	switch {
	case set != nil:
		m.Answer = z.signed(set...)
	case exists:
		m.Ns = append(z.signed(z.sets["."][dns.TypeSOA]...), z.nsec(q.Name)...)
	default:
		m.Rcode = dns.RcodeNameError
		m.Ns = append(z.signed(z.sets["."][dns.TypeSOA]...), z.nsec(q.Name)...)
		m.Ns = append(m.Ns, z.nsec("*.")...)
	}
	_ = w.WriteMsg(m)
}

// A resolver that validates finds that the locally served zones need no signatures, as it is
// told of the DS record by the upstream; what is not delegated is bogus, and not answered.
func TestPrivateValidated(t *testing.T) {
	delv, err := exec.LookPath("delv")
	if err != nil {
		lab.Lack(t, "there is no delv, of bind9-dnsutils: %v", err)
	}
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	z := newSignedRoot(t)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveUDP(t, pc, z)
	corefile := ".:0 {\n    bind 127.0.0.1\n    private\n    cache\n    forward . " + pc.LocalAddr().String() + " {\n        prefer_udp\n    }\n}\n"
	i := corefiletest.Start(t, caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	t.Cleanup(func() {
		i.ShutdownCallbacks()
		_ = i.Stop()
	})
	_, port, err := net.SplitHostPort(i.Servers()[0].LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	anchor := filepath.Join(t.TempDir(), "anchor")
	if err := os.WriteFile(anchor, fmt.Appendf(nil, "trust-anchors { . static-key 257 3 13 %q; };\n", z.key.PublicKey), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct{ qname, qtype, want string }{
		{"www.example", "A", "; fully validated"},
		{"nobody.example", "A", "; negative response, fully validated"},
		{"9.0.0.10.in-addr.arpa", "PTR", "; negative response, unsigned answer"},
		{"10.in-addr.arpa", "NS", "; unsigned answer"},
		{"nas.home.arpa", "A", "; negative response, unsigned answer"},
		{"10.in-addr.arpa", "DS", "; negative response, fully validated"},
		{"db.internal", "A", ";; resolution failed"},
		{"wpad", "A", ";; resolution failed"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, delv, "@127.0.0.1", "-p", port, "-a", anchor, "+root=.", tt.qname, tt.qtype).CombinedOutput()
		cancel()
		if !strings.Contains(string(out), tt.want) {
			t.Errorf("%s %s: %v, want %q in\n%s", tt.qname, tt.qtype, err, tt.want, out)
		}
	}
}
