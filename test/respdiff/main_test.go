// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// A difference needs a reason, and a reason a difference.
func TestReport(t *testing.T) {
	defer func(before []reason) { reasons = before }(reasons)
	reasons = []reason{
		{"Unbound", "ra", `\S+ IN AXFR`, "set", "", "errors have none"},
		{both, "rcode", "", "NXDOMAIN|FORMERR", "", "names differ"},
	}
	ra := difference{"a. IN AXFR", "Unbound", "ra", "set", ""}
	rcode := difference{"a. IN A", "CoreDNS", "rcode", "FORMERR", "NOERROR"}
	for _, tt := range []struct {
		name  string
		found []difference
		want  string // in what is printed
		fails bool
	}{
		{"all have a reason", []difference{ra, rcode}, "Unbound, ra, 1 times: errors have none\n    a. IN AXFR: puntdns \"set\", Unbound \"\"\n", false},
		{"another server", []difference{ra, rcode, {"a. IN AXFR", "CoreDNS", "ra", "set", ""}}, "no reason: CoreDNS, ra: a. IN AXFR", true},
		{"another question", []difference{ra, rcode, {"a. IN A", "Unbound", "ra", "set", ""}}, "no reason: Unbound, ra: a. IN A", true},
		{"another answer", []difference{ra, rcode, {"a. IN A", "CoreDNS", "rcode", "NOERROR", "REFUSED"}}, "no reason: CoreDNS, rcode", true},
		{"a part of the text is not enough", []difference{ra, rcode, {"b. IN AXFR TCP", "Unbound", "ra", "set", ""}}, "no reason: Unbound, ra: b.", true},
		{"a reason is left over", []difference{rcode}, "no difference has this reason: Unbound, ra: errors have none\n", true},
	} {
		var out strings.Builder
		if err := report(&out, tt.found, false); (err != nil) != tt.fails || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v\n%s\nwant %s", tt.name, err, out.String(), tt.want)
		}
	}
}

// The name of a question identifies it, and each regular expression is one.
func TestQuestions(t *testing.T) {
	seen := map[string]bool{}
	for _, q := range questions() {
		if seen[q.name] {
			t.Errorf("%s: twice", q.name)
		}
		seen[q.name] = true
	}
	for _, r := range reasons {
		for _, expr := range []string{r.question, r.ours, r.theirs} {
			matches(expr, "")
		}
	}
}

// Answers that differ in TTLs, the order of records and the case of owners count as equal; others do not.
func TestNewAnswer(t *testing.T) {
	query := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
	pack := func(m *dns.Msg) []byte {
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sent := pack(query)
	reply := func(records ...string) answer {
		m := new(dns.Msg).SetReply(query)
		for _, r := range records {
			rr, err := dns.NewRR(r)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		return newAnswer(sent, pack(m))
	}
	first := reply("a.example. 5 IN A 192.0.2.1", "a.example. 5 IN A 192.0.2.2")
	for name, tt := range map[string]struct {
		got   answer
		equal bool
	}{
		"order, case and TTL": {reply("A.example. 7 IN A 192.0.2.2", "a.example. 5 IN A 192.0.2.1"), true},
		"another address":     {reply("a.example. 5 IN A 192.0.2.1", "a.example. 5 IN A 192.0.2.3"), false},
		"no answer":           {newAnswer(sent, nil), false},
		"the query itself":    {newAnswer(sent, sent), false},
		"half an answer":      {newAnswer(sent, sent[:20]), false},
	} {
		equal := true
		for _, field := range fields {
			equal = equal && first[field] == tt.got[field]
		}
		if equal != tt.equal {
			t.Errorf("%s: equal is %v\n%v\n%v", name, equal, first, tt.got)
		}
	}
}
