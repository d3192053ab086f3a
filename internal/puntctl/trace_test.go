// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// doctor traces UDP and TCP of each address family that guest and resolver address share.
func TestQueriesOf(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		addresses, resolvers []string
		want                 []string
	}{
		{"both families", []string{"10.0.1.11", "10.0.1.12", "fd00:1::11"}, []string{"169.254.169.254:53", "9.9.9.9:53", "[fd00::254]:5353"},
			[]string{"udp 10.0.1.11 169.254.169.254 53", "tcp 10.0.1.11 169.254.169.254 53", "udp fd00:1::11 fd00::254 5353", "tcp fd00:1::11 fd00::254 5353"}},
		{"no resolver address of the family", []string{"fd00:1::11"}, []string{"169.254.169.254:53"}, nil},
		{"hijack mode", []string{"fd00:1::11"}, []string{"any"}, []string{"udp fd00:1::11 2001:db8::53 53"}},
		{"hijack mode, both families", []string{"fd00:1::11", "10.0.1.11"}, []string{"any"},
			[]string{"udp 10.0.1.11 192.0.2.53 53", "udp fd00:1::11 2001:db8::53 53"}},
		{"no known address", nil, []string{"169.254.169.254:53", "[fd00::254]:53"},
			[]string{"udp 192.0.2.1 169.254.169.254 53", "tcp 192.0.2.1 169.254.169.254 53", "udp fe80::1 fd00::254 53", "tcp fe80::1 fd00::254 53"}},
	} {
		g := &api.Guest{InPort: 1, MACs: []string{"02:00:00:00:01:11"}, Addresses: tc.addresses, Resolvers: tc.resolvers}
		var got []string
		for _, q := range queriesOf(g) {
			if q.assumed != (tc.addresses == nil) {
				t.Errorf("%s: assumed %v", tc.name, q.assumed)
			}
			got = append(got, strings.Join([]string{q.protocol(), q.from.String(), q.to.String(), strconv.Itoa(int(q.port))}, " "))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Queries of a guest with one verdict are one finding.
func TestTracesOfOneGuest(t *testing.T) {
	all := &api.Guests{Guests: []api.Guest{{
		Bridge: "br-int", Port: "vm1", InPort: 1, MACs: []string{"02:00:00:00:01:11"},
		Addresses: []string{"10.0.1.11", "fd00:1::11"}, Resolvers: []string{"169.254.169.254:53", "[fd00::254]:53"},
	}}}
	d := &diagnosis{}
	d.traces(t.Context(), wellStatus(), all.Guests, tracing(func(flow string) (string, error) {
		if strings.Contains(flow, ",tcp6,") {
			return traceDropped, nil
		}
		return tracePunted, nil
	}))
	want := []string{
		"ok  queries to 169.254.169.254 over UDP and TCP, to fd00::254 over UDP are punted",
		"problem not-punted queries to fd00::254 over TCP are dropped before the punt",
	}
	if len(d.Findings) != len(want) {
		t.Fatalf("%+v", d.Findings)
	}
	for i, f := range d.Findings {
		if got := f.Level + " " + f.Code + " " + f.Text; !strings.HasPrefix(got, want[i]) {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}

// The query over TCP adds its own problems and a missing trace, and nothing that the query over UDP has.
func TestMoreOverTCP(t *testing.T) {
	truncated, link := api.Problem{Code: api.CodeTruncated, Text: "truncated"}, api.Problem{Code: api.CodeLinkDown, Text: "link"}
	udp := &api.Explanation{Guest: api.Guest{Port: "red-vm1"}, Findings: []api.Problem{truncated, link}}
	for _, tc := range []struct {
		name string
		tcp  []api.Problem
		err  error
		want []string
	}{
		{"the same", []api.Problem{link}, nil, nil},
		{"an upstream", []api.Problem{{Code: api.CodeUpstream, Text: "it refuses"}, link}, nil, []string{api.CodeUpstream}},
		{"a note", []api.Problem{{Code: api.CodeSlowUpstream, Text: "slow"}}, nil, nil},
		{"an ACL", []api.Problem{{Code: api.CodeNotPunted, Text: "ACL"}}, nil, []string{api.CodeNotPunted}},
		{"no trace", []api.Problem{{Code: api.CodeNotTraced, Text: "no ovs-appctl"}}, nil, []string{api.CodeNotTraced}},
		{"an error", nil, errors.New("another query is being explained"), []string{api.CodeNotTraced}},
	} {
		var got []string
		for _, p := range moreOverTCP(udp, &api.Explanation{Findings: tc.tcp}, tc.err) {
			got = append(got, p.Code)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The logical flow of a flow that stops a query says what it is of.
func TestWhyStopped(t *testing.T) {
	const table = 22 // of traceDropped
	found := ""
	for _, tc := range []struct {
		name, stage, hint, actions string
		err                        error
	}{
		{"an ACL", "ls_in_acl", "5b4e9d10", "/* drop */", nil},
		{"an ACL that rejects", "ls_in_acl", "5b4e9d10", "reg0 = 0; reject { outport <-> inport; };", nil},
		{"an ACL that rejects later", "ls_in_acl_eval", "5b4e9d10", "reg8[18] = 1; next;", nil},
		{"no ACL", "ls_in_acl_action", "", "drop;", nil},
		{"a load balancer", "ls_in_lb", "77aa0c01", "drop;", nil},
		{"a load balancer that rejects", "ls_in_lb", "77aa0c01", "reg0 = 0; reject { outport <-> inport; };", nil},
		{"port security", "ls_in_apply_port_sec", "", "drop;", nil},
		{"port security before OVN 22.09", "ls_in_port_sec_ip", "", "drop;", nil},
		{"a network function", "ls_in_network_function", "", "drop;", nil},
		{"another stage", "ls_in_stateful", "", "drop;", nil},
		{"not known", "", "", "", errors.New("an older process")},
	} {
		asked := hop{}
		tr := &tracer{logicalFlow: func(_ context.Context, _ *api.Guest, h hop) (*api.LogicalFlow, error) {
			asked = h
			return &api.LogicalFlow{Stage: tc.stage, Hint: tc.hint, Actions: tc.actions}, tc.err
		}}
		q := queriesOf(&someGuests().Guests[0])[0]
		w := readTrace(traceDropped, nil)
		s := tr.whyStopped(t.Context(), &q, &w, nil)
		if asked.table != table || len(s.commands) < 3 {
			t.Errorf("%s: asked for %v, commands %q", tc.name, asked, s.commands)
		}
		found += fmt.Sprintf("%s: %s\n  %s\n", tc.name, s.text, s.remedy)
		for _, line := range s.commands[:len(s.commands)-2] {
			found += "    " + line + "\n"
		}
	}
	golden.Check(t, found)
}
