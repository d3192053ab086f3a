// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Resolver addresses, the ones that puntdns has unless configured.
const (
	resolver4 = "169.254.169.254"
	resolver6 = "fd00::254"
)

// Transports.
const udp, tcp = "UDP", "TCP"

// Who answers.
const (
	byRow      = "ovnhosts (DNS row)"
	byPort     = "ovnhosts (port)"
	byNobody   = "ovnhosts (no such thing)"
	byUpstream = "upstream"
	byCache    = "cache of upstream"
)

// expected is an answer, status and data, and who gives it.
type expected struct {
	answer, by string
}

// question is asked by each tenant in turn, in the order of tenants.
type question struct {
	name   string
	qtype  string
	server string
	want   [2]expected
	over   string
}

var questions = []question{
	{"db.internal.", "A", resolver4, [2]expected{{"10.0.0.20", byRow}, {"10.0.0.30", byRow}}, udp},
	{"db.internal.", "A", resolver4, [2]expected{{"10.0.0.20", byRow}, {"10.0.0.30", byRow}}, tcp},
	{"DB.Internal.", "A", resolver6, [2]expected{{"10.0.0.20", byRow}, {"10.0.0.30", byRow}}, udp},
	{"db.internal.", "AAAA", resolver6, [2]expected{{"fd00:10::20", byRow}, {"no data", byRow}}, udp},
	{"vault.internal.", "A", resolver4, [2]expected{{"NXDOMAIN", byNobody}, {"10.0.0.40", byRow}}, udp},
	{"web.", "A", resolver4, [2]expected{{"10.0.0.12", byPort}, {"10.0.0.13", byPort}}, udp},
	{"web.internal.", "A", resolver6, [2]expected{{"10.0.0.12", byPort}, {"10.0.0.13", byPort}}, udp},
	{"beta.internal.", "A", resolver4, [2]expected{{"NXDOMAIN", byNobody}, {"10.0.0.11", byPort}}, udp},
	{"11.0.0.10.in-addr.arpa.", "PTR", resolver4, [2]expected{{"alpha.internal.", byPort}, {"beta.internal.", byPort}}, udp},
	{"20.0.0.10.in-addr.arpa.", "PTR", resolver4, [2]expected{{"db.internal.", byRow}, {"NXDOMAIN", byNobody}}, udp},
	{"www.example.org.", "A", resolver4, [2]expected{{"192.0.2.80", byUpstream}, {"192.0.2.80", byCache}}, udp},
	{"www.example.org.", "AAAA", resolver6, [2]expected{{"2001:db8::80", byUpstream}, {"2001:db8::80", byCache}}, udp},
	{"none.example.org.", "A", resolver4, [2]expected{{"NXDOMAIN", byUpstream}, {"NXDOMAIN", byCache}}, udp},
}

// show asks every question in every tenant, prints a table and reports whether
// all answers are right.
func (d *demo) show(out io.Writer) bool {
	right := true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUERY\tRESOLVER\tTENANT\tANSWER\tWHO ANSWERED\t")
	for _, q := range questions {
		for i, want := range q.want {
			got := d.ask(d.guests[i], q)
			verdict := "ok"
			if got != want {
				verdict = fmt.Sprintf("WRONG, want %s from %s", want.answer, want.by)
				right = false
			}
			fmt.Fprintf(w, "%s %s\t%s %s\t%s\t%s\t%s\t%s\n", q.name, q.qtype, q.server, q.over, tenants[i].name, got.answer, got.by, verdict)
		}
	}
	if err := w.Flush(); err != nil {
		return false
	}
	return right
}

// ask asks from inside a guest.
func (d *demo) ask(g *lab.Guest, q question) expected {
	asked := d.askedUpstream(q)
	transport := map[string]string{udp: "+notcp", tcp: "+tcp"}[q.over]
	r := g.Dig("+norecurse", "+time=5", transport, "@"+q.server, q.name, q.qtype)
	if r.Err != nil {
		return expected{"no reply", "nobody"}
	}
	got := expected{answer: strings.Join(r.Values(), " ")}
	switch {
	case r.Status != "NOERROR":
		got.answer = r.Status
	case got.answer == "":
		got.answer = "no data"
	}
	table, err := d.answeredFrom(g, q, r.ID)
	now := d.askedUpstream(q)
	switch {
	case err != nil:
		got.by = err.Error()
	case table == "dns":
		got.by = byRow
	case table == "port":
		got.by = byPort
	case now > asked:
		got.by = byUpstream
	case now > 0:
		got.by = byCache
	default:
		got.by = byNobody
	}
	return got
}

// askedUpstream counts what the upstream was asked of a question.
func (d *demo) askedUpstream(q question) int {
	n := 0
	for _, a := range d.upstream.Asked() {
		if strings.EqualFold(a.Name, q.name) && dns.TypeToString[a.Qtype] == q.qtype {
			n++
		}
	}
	return n
}

// answeredFrom returns the table that ovnhosts has answered a query from, empty
// for none. It says so only of a query that was taken for the guest's own.
func (d *demo) answeredFrom(g *lab.Guest, q question, id string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Two queries of a guest may have one ID.
	line := fmt.Sprintf(`(?mi)demo %s %s %s %s \S+ (\w*)$`, id, regexp.QuoteMeta(g.Port), regexp.QuoteMeta(dns.Fqdn(q.name)), q.qtype)
	// It is written after the answer has gone.
	if err := d.puntdns.WaitLog(ctx, line); err != nil {
		return "", fmt.Errorf("not seen as %s", g.Port)
	}
	return regexp.MustCompile(line).FindStringSubmatch(d.puntdns.Log())[1], nil
}
