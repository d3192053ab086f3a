// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

// Whatever is asked, the answer can be sent, is to that question, and of the names
// of one switch.
func FuzzServeDNS(f *testing.F) {
	for _, name := range []string{
		"db.internal.", "vm1.", "VM2.example.org.", "30.0.0.10.in-addr.arpa.", "12.0.0.10.in-addr.arpa.", "x.y.apps.internal.", "internal.", "vm3.",
		"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", `db\.internal.`, `\000\255.apps.internal.`, ".",
		strings.Repeat(strings.Repeat("a", 60)+".", 4),
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeANY, dns.TypePTR, dns.TypeSOA} {
			b, err := new(dns.Msg).SetQuestion(name, qtype).Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	h := open(f, " domain example.org\n ttl 42")
	f.Fuzz(func(t *testing.T, b []byte) {
		// What comes this far has been unpacked and has one question.
		r := new(dns.Msg)
		if r.Unpack(b) != nil || len(r.Question) != 1 {
			return
		}
		asked := r.Question[0]
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := h.ServeDNS(context.Background(), w, r)
		if err != nil {
			t.Fatalf("%v: %v", asked, err)
		}
		if r.Question[0] != asked {
			t.Errorf("the question %v has become %v", asked, r.Question[0])
		}
		if w.Msg == nil {
			if code != dns.RcodeRefused { // the class, or the next plugin for the root
				t.Errorf("%v: %s and no answer", asked, dns.RcodeToString[code])
			}
			return
		}
		if len(w.Msg.Question) != 1 || w.Msg.Question[0] != asked || w.Msg.Id != r.Id || !w.Msg.Response {
			t.Errorf("%v is answered by %v", asked, w.Msg)
		}
		if (len(w.Msg.Answer) == 0) != (len(w.Msg.Ns) == 1) {
			t.Errorf("%v: %d answers and %d SOA records", asked, len(w.Msg.Answer), len(w.Msg.Ns))
		}
		for _, rr := range w.Msg.Answer {
			if hdr := rr.Header(); hdr.Name != asked.Name || asked.Qtype != dns.TypeANY && hdr.Rrtype != asked.Qtype || strings.Contains(rr.String(), "10.0.1.13") {
				t.Errorf("%v: %v", asked, rr)
			}
		}
		packed, err := w.Msg.Pack()
		if err == nil {
			err = new(dns.Msg).Unpack(packed)
		}
		if err != nil {
			t.Errorf("%v: %v", w.Msg, err)
		}
	})
}
