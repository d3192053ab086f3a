// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// The first finding causes the answer. Names of other tenants hide no error, and puntdns' answer does not count for a
// resumed query.
func TestDiagnose(t *testing.T) {
	const (
		none = -1 // no answer
		ok   = dns.RcodeSuccess
		nx   = dns.RcodeNameError
		fail = dns.RcodeServerFailure
	)
	chain := origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}
	late := origin.Outcome{Result: metric.Answered, Reason: metric.ReasonDeadline}
	dropped := origin.Outcome{Result: metric.Dropped, Reason: metric.ReasonUnanswered}
	resumed := origin.Outcome{Result: metric.Resumed, Reason: metric.ReasonChain}
	noBlock := origin.Outcome{Result: metric.Answered, Reason: metric.ReasonNoBlock}
	all := func(codes ...string) []string { return codes }
	for _, tc := range []struct {
		name    string
		outcome origin.Outcome
		rcode   int
		records int
		found   []string // by plugins
		cached  string   // stored answer
		want    []string
	}{
		{"records", chain, ok, 1, all(api.CodeOtherNetwork, api.CodeUpstream), "", nil},
		{"records that open nothing", chain, ok, 1, all(api.CodePolicy, api.CodeNotOpened), "", all(api.CodeNotOpened)},
		{"a denial that opens nothing", chain, nx, 0, all(api.CodeNotOpened), "", all(api.CodeNoData)},
		{"no such name", chain, nx, 0, nil, "", all(api.CodeNoData)},
		{"no record of the type", chain, ok, 0, nil, "", all(api.CodeNoType)},
		{"a name of another network", chain, nx, 0, all(api.CodeOtherNetwork, api.CodePrivate), "", all(api.CodeOtherNetwork)},
		{"no search domain", chain, nx, 0, all(api.CodeSearchDomain, api.CodeOtherNetwork), "", all(api.CodeSearchDomain, api.CodeOtherNetwork)},
		{"no value that can be read", chain, ok, 0, all(api.CodeUnreadable, api.CodePrivate), "", all(api.CodeUnreadable)},
		{"a private name", chain, nx, 0, all(api.CodePrivate), "", all(api.CodePrivate)},
		{"a stored denial", chain, nx, 0, nil, "NXDOMAIN", all(api.CodeCached)},
		{"a stored answer that a filter replaces", chain, nx, 0, all(api.CodePolicy), "NOERROR A 192.0.2.1", all(api.CodePolicy)},
		{"a stored answer that egress fails", chain, fail, 0, all(api.CodeEgressFailed), "NOERROR A 192.0.2.1", all(api.CodeEgressFailed)},
		{"an error, and a name of another network", chain, fail, 0, all(api.CodeOtherNetwork), "", all(api.CodeError, api.CodeOtherNetwork)},
		{"an error, and a longer name", chain, dns.RcodeRefused, 0, all(api.CodeSearchDomain), "", all(api.CodeError, api.CodeSearchDomain)},
		{"an error in cache", chain, fail, 0, nil, "SERVFAIL", all(api.CodeCached, api.CodeError)},
		{"too late, and a name of another network", late, fail, 0, all(api.CodeOtherNetwork), "", all(api.CodeDeadline, api.CodeOtherNetwork)},
		{"no answer, and a name of another network", dropped, none, 0, all(api.CodeOtherNetwork), "", all(api.CodeDropped, api.CodeOtherNetwork)},
		{"a dead upstream, and a name of another network", chain, fail, 0, all(api.CodeOtherNetwork, api.CodeUpstream), "", all(api.CodeUpstream, api.CodeOtherNetwork)},
		{"a required policy zone without rules", chain, fail, 0, all(api.CodePolicyZone), "", all(api.CodePolicyZone)},
		{"addresses that the switch has not opened", chain, fail, 0, all(api.CodeEgressFailed), "", all(api.CodeEgressFailed)},
		{"a dead upstream, too late", late, fail, 0, all(api.CodeUpstream), "", all(api.CodeUpstream)},
		{"a loop", chain, fail, 0, all(api.CodeLoop), "", all(api.CodeLoop)},
		{"a filter that drops", dropped, none, 0, all(api.CodePolicy), "", all(api.CodePolicy)},
		{"no block", noBlock, dns.RcodeRefused, 0, nil, "", all(api.CodeNoBlock)},
		{"resumed", resumed, none, 0, all(api.CodePrivate, api.CodeLoop), "", nil},
		{"a slow upstream", chain, ok, 1, all("slow"), "", all(api.CodeSlowUpstream)},
		{"a slow upstream that denies", chain, nx, 0, all("slow"), "", all(api.CodeNoData, api.CodeSlowUpstream)},
		{"a slow upstream that fails", chain, fail, 0, all("slow"), "", all(api.CodeError)},
		{"resumed, as no block takes it", origin.Outcome{Result: metric.Resumed, Reason: metric.ReasonNoBlock}, none, 0, nil, "", nil},
		{"resumed, and a name of another network", resumed, none, 0, all(api.CodeOtherNetwork), "", all(api.CodeOtherNetwork)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA, server: netip.MustParseAddrPort("10.0.0.2:53")}
			q := &explainedQuery{explainRequest: w, serverGiven: true, out: newExplanation(w)}
			v := &punt.TestResult{Outcome: tc.outcome}
			if tc.rcode != none {
				v.Answer = new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion(w.name, w.qtype), tc.rcode)
				for i := range tc.records {
					v.Answer.Answer = append(v.Answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: w.name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, byte(i))})
				}
			}
			r := &explain.Report{Cached: tc.cached, Answered: -1, WouldAnswer: -1, Pending: -1}
			if slices.Contains(tc.found, "slow") {
				tc.found = nil
				r.Steps = []explain.StepReport{{Plugin: "forward"}, {Plugin: explain.Connect, Notes: []string{"192.0.2.1:53"}, Took: slow}, {Plugin: explain.Connect, Notes: []string{"192.0.2.2:53"}, Took: slow - 1}}
			}
			for _, code := range tc.found {
				r.Findings = append(r.Findings, explain.Finding{Code: code, Text: code})
			}
			q.diagnose(v, r)
			var got []string
			for _, f := range q.out.Findings {
				got = append(got, f.Code)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
			q.out.conclude()
			if q.out.Well != !slices.ContainsFunc(tc.want, func(code string) bool { return !remedy.IsNote(code) }) {
				t.Errorf("well is %v with %q", q.out.Well, got)
			}
			for _, f := range q.out.Findings {
				if f.Docs == "" || f.Remedy == "" && !slices.Contains(tc.found, f.Code) {
					t.Errorf("%s has no remedy: %+v", f.Code, f)
				}
			}
		})
	}
}

// An error without an answer is the last plugin's that ran and called no other one.
func TestDiagnoseError(t *testing.T) {
	hosts := []explain.StepReport{{Plugin: "log", Passed: true}, {Plugin: "cache", Left: true}, {Plugin: "hosts"}}
	for _, tc := range []struct {
		name   string
		report explain.Report
		want   string
	}{
		{"a plugin returns it", explain.Report{Steps: hosts}, "the guest gets the error SERVFAIL, which the plugin hosts returns without an answer"},
		{"upstreams and bypassed plugins behind", explain.Report{Steps: append(slices.Clone(hosts), explain.StepReport{Plugin: explain.Connect}, explain.StepReport{Plugin: "cache", Left: true})}, "the guest gets the error SERVFAIL, which the plugin hosts returns without an answer"},
		{"no plugin", explain.Report{}, "the guest gets the error SERVFAIL"},
		{"an error", explain.Report{Steps: hosts, Err: errors.New("broken")}, "the guest gets the error SERVFAIL: broken"},
	} {
		w := &explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA}
		q := &explainedQuery{explainRequest: w, out: newExplanation(w)}
		q.out.Rcode = "SERVFAIL"
		tc.report.Answered = -1
		v := &punt.TestResult{Outcome: origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}, Answer: new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion(w.name, w.qtype), dns.RcodeServerFailure)}
		q.diagnoseError(v, &tc.report)
		if f := q.out.Findings; len(f) != 1 || f[0].Code != api.CodeError || f[0].Text != tc.want {
			t.Errorf("%s: %+v, want %q", tc.name, f, tc.want)
		}
	}
}

// A missing target of an alias, or a truncated answer, is no missing name.
func TestDiagnoseAnswer(t *testing.T) {
	const alias = "www.example.org. 60 IN CNAME db.example.org."
	for _, tc := range []struct {
		name    string
		rcode   int
		records []string
		change  func(*dns.Msg)
		want    string // code, and the start of the text
	}{
		{"an alias", dns.RcodeSuccess, []string{alias, "db.example.org. 60 IN A 192.0.2.1"}, nil, ""},
		{"an alias of no name", dns.RcodeNameError, []string{alias}, nil, "no-data www.example.org. is an alias of db.example.org., which does not exist"},
		{"an alias of a name without the type", dns.RcodeSuccess, []string{alias}, nil, "no-type www.example.org. is an alias of db.example.org., which exists, but has no record of type A"},
		{"the alias itself", dns.RcodeSuccess, []string{alias}, func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeCNAME }, ""},
		{"any type", dns.RcodeSuccess, []string{alias}, func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }, ""},
		{"truncated", dns.RcodeSuccess, nil, func(m *dns.Msg) { m.Truncated = true }, "truncated "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA, server: netip.MustParseAddrPort("10.0.0.2:53")}
			q := &explainedQuery{explainRequest: w, serverGiven: true, out: newExplanation(w)}
			m := new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion(w.name, w.qtype), tc.rcode)
			for _, text := range tc.records {
				rr, err := dns.NewRR(text)
				if err != nil {
					t.Fatal(err)
				}
				m.Answer = append(m.Answer, rr)
			}
			if tc.change != nil {
				tc.change(m)
			}
			v := &punt.TestResult{Outcome: origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}, Answer: m}
			q.diagnose(v, &explain.Report{Answered: -1, WouldAnswer: -1, Pending: -1})
			got := ""
			for _, f := range q.out.Findings {
				got += f.Code + " " + f.Text
			}
			if !strings.HasPrefix(got, tc.want) || got != "" && tc.want == "" {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Searches run only for a denial. An error becomes a note.
func TestDiagnoseSearch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rcode int
		err   error
		runs  bool
		want  []string
	}{
		{"no such name", dns.RcodeNameError, nil, true, []string{api.CodeNoSwitch}},
		{"it could not search", dns.RcodeNameError, errors.New("refused"), true, []string{api.CodePrivate}},
		{"an error", dns.RcodeServerFailure, nil, false, []string{api.CodeError, api.CodePrivate}},
	} {
		w := &explainRequest{port: "vm1", name: "db.internal.", qtype: dns.TypeA}
		q := &explainedQuery{explainRequest: w, serverGiven: true, out: newExplanation(w)}
		v := &punt.TestResult{Outcome: origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}, Answer: new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion(w.name, w.qtype), tc.rcode)}
		ran := false
		q.diagnose(v, &explain.Report{
			Answered: -1, WouldAnswer: -1, Pending: -1, Findings: []explain.Finding{{Code: api.CodePrivate, Text: "private"}},
			Searches: []explain.Search{func() ([]explain.Finding, error) {
				if ran = true; tc.err != nil {
					return nil, tc.err
				}
				return []explain.Finding{{Code: api.CodeNoSwitch, Text: "no switch"}}, nil
			}},
		})
		var got []string
		for _, f := range q.out.Findings {
			got = append(got, f.Code)
		}
		if ran != tc.runs || !slices.Equal(got, tc.want) || len(q.out.Notes) > 0 != (tc.err != nil) {
			t.Errorf("%s: it ran %v, found %q, notes %q; want %v, %q", tc.name, ran, got, q.out.Notes, tc.runs, tc.want)
		}
	}
}

// A name may have addresses of one family only.
func TestOtherFamily(t *testing.T) {
	for qtype, want := range map[uint16]string{dns.TypeA: "IPv6 addresses only", dns.TypeAAAA: "IPv4 addresses only", dns.TypeMX: "with another type"} {
		w := &explainRequest{port: "vm1", name: "www.example.org.", qtype: qtype}
		q := &explainedQuery{explainRequest: w, serverGiven: true, out: newExplanation(w)}
		v := &punt.TestResult{Outcome: origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}, Answer: new(dns.Msg).SetQuestion(w.name, qtype)}
		q.diagnose(v, &explain.Report{Answered: -1, WouldAnswer: -1, Pending: -1})
		q.out.conclude()
		if f := q.out.Findings; !q.out.Well || len(f) != 1 || f[0].Code != api.CodeNoType || !strings.Contains(f[0].Remedy, want) {
			t.Errorf("%s: %+v, want %q", dns.TypeToString[qtype], f, want)
		}
	}
}

// A chassis missing in Southbound is the cause, unless the interface has another fault.
func TestUnservedByBinding(t *testing.T) {
	for _, tc := range []struct {
		binding  string
		expected bool
		want     []string
	}{
		{"", true, []string{api.CodeUnserved}},
		{"no chassis", true, []string{api.CodeBinding}},
		{"no chassis", false, []string{api.CodeBinding, api.CodeUnserved}},
	} {
		e := newExplanation(&explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA})
		e.showUnserved(&api.Unserved{Bridge: "br-int", Interface: "tap1", Port: "vm1", Reason: "it is of no guest", Expected: tc.expected}, tc.binding)
		e.conclude()
		var got []string
		for _, f := range e.Findings {
			got = append(got, f.Code)
		}
		if e.Well || !slices.Equal(got, tc.want) || e.Findings[0].Remedy == "" {
			t.Errorf("%q, expected %v: %+v, want %q", tc.binding, tc.expected, e.Findings, tc.want)
		}
	}
}

func TestUnservedRemedy(t *testing.T) {
	for _, tc := range []struct {
		remedy, want string
		commands     int
	}{
		{"", "external_ids:iface-id of the interface has to be the name of a logical port", 5},
		{"start the agent", "start the agent", 0},
	} {
		e := newExplanation(&explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA})
		e.showUnserved(&api.Unserved{Interface: "tap1", Port: "vm1", Reason: "it has gone", Remedy: tc.remedy}, "")
		e.conclude()
		if f := e.Findings[0]; e.Well || len(e.Findings) != 1 || !strings.HasPrefix(f.Remedy, tc.want) || len(f.Commands) != tc.commands {
			t.Errorf("remedy %q: %+v", tc.remedy, e.Findings)
		}
	}
}
