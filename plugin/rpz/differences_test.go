// SPDX-License-Identifier: Apache-2.0

package rpz_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// The differences from BIND that the README lists, and that one question shows: the first words of both answers. A
// difference that is none any more fails too.
func TestDifferences(t *testing.T) {
	named, err := exec.LookPath("named")
	if err != nil {
		lab.Lack(t, "there is no BIND: %v", err)
	}
	upstream := serveAuthority(t, dns.HandlerFunc(answerUnlessFail))
	zone := func(name, rules string) *policyZone {
		return &policyZone{name: name, rules: strings.Split(rules, "; ")}
	}
	logged := zone("log.rpz", "24.0.9.0.10.rpz-ip CNAME .")
	logged.bind, logged.ours = "disabled", "log"
	for _, tt := range []struct {
		name       string
		zones      []*policyZone
		qname      string
		qtype      uint16
		bind, ours string
	}{
		{"a type without addresses does not wait", []*policyZone{zone("a.rpz", "24.0.9.0.10.rpz-ip CNAME ."), zone("b.rpz", "fail.example CNAME *.")},
			"fail.example.", dns.TypeTXT, "SERVFAIL", "NOERROR"},
		{"a type of another family does not wait", []*policyZone{zone("a.rpz", "24.0.9.0.10.rpz-ip CNAME ."), zone("b.rpz", "fail.example CNAME *.")},
			"fail.example.", dns.TypeAAAA, "SERVFAIL", "NOERROR"},
		{"nobody waits for a zone that is logged", []*policyZone{logged, zone("b.rpz", "fail.example CNAME *.")},
			"fail.example.", dns.TypeA, "SERVFAIL", "NOERROR"},
		{"a skipped record has no data", []*policyZone{zone("a.rpz", "d.example DNAME g.example.; *.example CNAME .")},
			"d.example.", dns.TypeA, "NOERROR", "NXDOMAIN"},
		{"a skipped record stops no wildcard", []*policyZone{zone("a.rpz", "d.example DNAME g.example.; *.example CNAME .")},
			"x.d.example.", dns.TypeA, "NOERROR", "NXDOMAIN"},
		{"hints", []*policyZone{zone("a.rpz", "24.0.0.0.10.rpz-ip CNAME .")}, "x.example.", dns.TypeHTTPS, "NOERROR", "NXDOMAIN"},
		{"no difference: an answer that fails has no SOA record", []*policyZone{zone("a.rpz", "x.example CNAME fail.example.")},
			"x.example.", dns.TypeA, "SERVFAIL | ra | answer | authority | additional", "SERVFAIL | ra | answer | authority | additional"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{zones: tt.zones}
			dir := w.writeZones(t)
			bind := startBIND(t, named, dir, upstream, w)
			ours := startServer(t, w.corefile(dir, upstream))
			want, got := question{name: tt.qname, qtype: tt.qtype}.askBoth(bind, ours)
			if !strings.HasPrefix(want.text, tt.bind) || !strings.HasPrefix(got.text, tt.ours) {
				t.Errorf("BIND: %s, want %s\nrpz: %s, want %s", want.text, tt.bind, got.text, tt.ours)
			}
		})
	}
}

// answerUnlessFail answers for any name: with an address, or an address hint. Names that begin with fail have no answer.
func answerUnlessFail(rw dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	if r.IsEdns0() != nil {
		m.SetEdns0(4096, false)
	}
	data := map[uint16]string{dns.TypeA: "A 10.0.0.5", dns.TypeHTTPS: "HTTPS 1 . ipv4hint=10.0.0.5"}[q.Qtype]
	switch labels := dns.SplitDomainName(q.Name); {
	case strings.HasPrefix(q.Name, "fail"):
		m.Rcode = dns.RcodeServerFailure
	case data != "":
		rr, _ := dns.NewRR(q.Name + " 3600 " + data)
		m.Answer = append(m.Answer, rr)
	case len(labels) > 0:
		soa, _ := dns.NewRR(labels[len(labels)-1] + ". 3600 SOA ns.test. hostmaster.test. 1 3600 600 86400 3600")
		m.Ns = append(m.Ns, soa)
	}
	_ = rw.WriteMsg(m)
}
