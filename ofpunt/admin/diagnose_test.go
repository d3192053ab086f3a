// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// The first finding is what the guest's answer comes from. What any tenant may have in its own network
// hides no error, and a query that is resumed is not judged by what puntdns would have said.
func TestDiagnose(t *testing.T) {
	const (
		none = -1 // no answer
		ok   = dns.RcodeSuccess
		nx   = dns.RcodeNameError
		fail = dns.RcodeServerFailure
	)
	chain := origin.Fate{Result: metric.Answered, Reason: metric.ReasonChain}
	late := origin.Fate{Result: metric.Answered, Reason: metric.ReasonDeadline}
	dropped := origin.Fate{Result: metric.Dropped, Reason: metric.ReasonUnanswered}
	resumed := origin.Fate{Result: metric.Resumed, Reason: metric.ReasonChain}
	noBlock := origin.Fate{Result: metric.Answered, Reason: metric.ReasonNoBlock}
	all := func(codes ...string) []string { return codes }
	for _, tc := range []struct {
		name    string
		fate    origin.Fate
		rcode   int
		records int
		found   []string // by plugins
		cached  string   // what cache has
		want    []string
	}{
		{"records", chain, ok, 1, all(explain.OtherNetwork, explain.Upstream), "", nil},
		{"no such name", chain, nx, 0, nil, "", all(api.CodeNoData)},
		{"no record of the type", chain, ok, 0, nil, "", all(api.CodeNoData)},
		{"a name of another network", chain, nx, 0, all(explain.OtherNetwork, explain.Private), "", all(api.CodeOtherNetwork)},
		{"no search domain", chain, nx, 0, all(explain.SearchDomain, explain.OtherNetwork), "", all(api.CodeSearchDomain, api.CodeOtherNetwork)},
		{"no value that can be read", chain, ok, 0, all(explain.Unreadable, explain.Private), "", all(api.CodeUnreadable)},
		{"a private name", chain, nx, 0, all(explain.Private), "", all(api.CodePrivate)},
		{"a stored denial", chain, nx, 0, nil, "NXDOMAIN", all(api.CodeCached)},
		{"an error, and a name of another network", chain, fail, 0, all(explain.OtherNetwork), "", all(api.CodeError, api.CodeOtherNetwork)},
		{"an error, and a longer name", chain, dns.RcodeRefused, 0, all(explain.SearchDomain), "", all(api.CodeError, api.CodeSearchDomain)},
		{"an error in cache", chain, fail, 0, nil, "SERVFAIL", all(api.CodeCached, api.CodeError)},
		{"too late, and a name of another network", late, fail, 0, all(explain.OtherNetwork), "", all(api.CodeDeadline, api.CodeOtherNetwork)},
		{"no answer, and a name of another network", dropped, none, 0, all(explain.OtherNetwork), "", all(api.CodeDropped, api.CodeOtherNetwork)},
		{"a dead upstream, and a name of another network", chain, fail, 0, all(explain.OtherNetwork, explain.Upstream), "", all(api.CodeUpstream, api.CodeOtherNetwork)},
		{"a dead upstream, too late", late, fail, 0, all(explain.Upstream), "", all(api.CodeUpstream)},
		{"a loop", chain, fail, 0, all(explain.Loop), "", all(api.CodeLoop)},
		{"a filter that drops", dropped, none, 0, all(explain.Policy), "", all(api.CodePolicy)},
		{"no block", noBlock, dns.RcodeRefused, 0, nil, "", all(api.CodeNoBlock)},
		{"resumed", resumed, none, 0, all(explain.Private, explain.Loop), "", nil},
		{"resumed, as no block takes it", origin.Fate{Result: metric.Resumed, Reason: metric.ReasonNoBlock}, none, 0, nil, "", nil},
		{"resumed, and a name of another network", resumed, none, 0, all(explain.OtherNetwork), "", all(api.CodeOtherNetwork)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA, server: netip.MustParseAddrPort("10.0.0.2:53")}
			q := &explainedQuery{explainRequest: w, serverGiven: true, out: newExplanation(w)}
			v := &punt.TestResult{Fate: tc.fate}
			if tc.rcode != none {
				v.Answer = new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion(w.name, w.qtype), tc.rcode)
				for i := range tc.records {
					v.Answer.Answer = append(v.Answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: w.name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, byte(i))})
				}
			}
			r := &explain.Report{Cached: tc.cached, Answered: -1, WouldAnswer: -1, Pending: -1}
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
			if q.out.Well != (len(tc.want) == 0) {
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

// An interface that is not served has the remedy for its reason.
func TestUnservedRemedy(t *testing.T) {
	for _, tc := range []struct {
		remedy, want string
		commands     int
	}{
		{"", "external_ids:iface-id of the interface has to be the name of a logical port", 3},
		{"start the agent", "start the agent", 0},
	} {
		e := newExplanation(&explainRequest{port: "vm1", name: "www.example.org.", qtype: dns.TypeA})
		e.showUnserved(&api.Unserved{Interface: "tap1", Port: "vm1", Reason: "it has gone", Remedy: tc.remedy})
		e.conclude()
		if f := e.Findings[0]; e.Well || len(e.Findings) != 1 || !strings.HasPrefix(f.Remedy, tc.want) || len(f.Commands) != tc.commands {
			t.Errorf("remedy %q: %+v", tc.remedy, e.Findings)
		}
	}
}
