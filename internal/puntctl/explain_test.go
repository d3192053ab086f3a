// SPDX-License-Identifier: Apache-2.0

package puntctl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// process is a control socket that answers as the test says.
func process(t *testing.T, path string, status int, answer any) (socket string) {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			t.Errorf("asked for %s, want %s", r.URL.Path, path)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}))
}

// serve serves a handler until the test's end.
func serve(t *testing.T, h http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return socket
}

// explaining is a process that explains. It has the logical flows of some tables of the traces; an older process has
// none.
func explaining(t *testing.T, e *api.Explanation, older bool) (socket string) {
	t.Helper()
	acl := api.LogicalFlow{Stage: "ls_in_acl", Hint: "5b4e9d10", Actions: "/* drop */"}
	byTable := map[string]api.LogicalFlow{
		"9": {Stage: "ls_in_apply_port_sec", Actions: "drop;"}, "16": acl, "17": acl,
		"18": {Stage: "ls_in_acl_action", Actions: "reg8[18] = 0; reject { };"}, "33": {Stage: "ls_in_network_function", Actions: "drop;"},
	}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encode := json.NewEncoder(w).Encode
		f, known := byTable[r.URL.Query().Get("table")]
		switch {
		case r.URL.Path == api.PathExplain:
			_ = encode(e)
		case known && !older:
			_ = encode(f)
		default:
			w.WriteHeader(http.StatusNotFound)
			_ = encode(api.Error{Message: "there is no such path"})
		}
	}))
}

// appctl puts an ovs-appctl before all others that says something.
func appctl(t *testing.T, says string) {
	t.Helper()
	dir := t.TempDir()
	if says != "" {
		if err := os.WriteFile(filepath.Join(dir, "ovs-appctl"), []byte("#!/bin/sh\n"+`while read -r l; do echo "$l"; done <<'EOT'`+"\n"+says+"\nEOT\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func explained() *api.Explanation {
	return &api.Explanation{
		Well: true, Findings: []api.Problem{},
		Question: api.ExplainQuestion{Port: "red-vm1", Name: "db.internal.", Type: "A", Server: "169.254.169.254:53", Client: "10.0.1.11:50000", ClientMAC: "02:00:00:00:01:11"},
		Guest: api.Guest{
			Bridge: "br-int", Port: "red-vm1", Switch: "red", Network: "0b4e7c3e-0000-4000-8000-000000000001", InPort: 5, Interface: "tap1",
			MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"10.0.1.11", "fd00:1::11"}, Resolvers: []string{"169.254.169.254:53"},
		},
		Flows: []api.GuestFlow{
			{Table: 29, Priority: 200, Match: "metadata=0x1,reg14=0x2,udp", For: "query", Packets: 7},
			{Table: 200, Priority: 10, Match: "any", For: "punt", Packets: 70},
		},
		Labels: []api.Label{{Name: "ofpunt/switch", Value: "red"}, {Name: "ofpunt/router"}},
		Views: []api.View{{
			Block: "Corefile:2 - gold.example", Name: "gold",
			Expressions: []api.Expression{{Text: "metadata('ofpunt/switch') == 'gold'", Value: "false"}},
			Labels:      []api.Label{{Name: "ofpunt/switch", Value: "red"}},
		}},
		Block: "Corefile:9 - .",
		Steps: []api.Step{
			{Plugin: "errors", Verdict: api.VerdictLeft},
			{Plugin: "log", Verdict: api.VerdictLeft},
			{Plugin: "cache", Verdict: api.VerdictLeft, Notes: []string{"has no entry"}},
			{Plugin: "ovnhosts", Verdict: api.VerdictAnswers, Seconds: 42e-6, Notes: []string{"row 1 of table DNS: 10.0.1.101", "a name of a tenant \x1b[31m"}},
		},
		Result: "answered", Reason: "chain", Seconds: 118e-6, Rcode: "NOERROR",
		Answer:  ";; opcode: QUERY, status: NOERROR, id: 1\n\n;; QUESTION SECTION:\n;db.internal.\tIN\t A\n\n;; ANSWER SECTION:\ndb.internal.\t5\tIN\tA\t10.0.1.101\n",
		Without: "OVN's own DNS answers 10.0.1.101", Effects: []string{"nothing"},
	}
}

const (
	tracePunted = "200. priority 10, cookie 0x70646e0000000001\n    controller\nDatapath actions: userspace"
	// OVN checks port security in table 73, and drops in the one behind that check.
	traceSecurity = " 8. metadata=0x1, priority 50, cookie 0x1\n    73. priority 0\n 9. reg0=0x8000/0x8000,metadata=0x1, priority 50, cookie 0x2\n    drop\nDatapath actions: drop"
	// A query that is not punted is dropped by the lookup of the destination, which is made up.
	traceExpired   = "29. udp,metadata=0x1, priority 200, cookie 0x70646e0000000001\n    resubmit(,200)\n    200. priority 0, cookie 0x70646e0000000001\n            resubmit(,30)\n" + traceLookup
	traceLookup    = "36. metadata=0x1, priority 50, cookie 0x3\n37. metadata=0x1, priority 0, cookie 0x4\n    drop\nDatapath actions: drop"
	traceMissing   = "29. metadata=0x1, priority 0, cookie 0x5\n" + traceLookup
	traceElsewhere = "37. priority 0\n    resubmit\nDatapath actions: 7"
	// An ACL that rejects has ovn-controller answer, and a trace goes no further than a load balancer.
	traceRejected = " 8. reg0=0x1, priority 50, cookie 0x1\n16. udp,metadata=0x1, priority 3000, cookie 0x2\n    controller(userdata=00.00.00.16)\nDatapath actions: userspace(pid=0,controller(reason=1))"
	// In releases after 23.03 the flow of the ACL leaves a verdict for a flow that all ACLs share.
	traceVerdict = "16. udp,reg0=0x200/0x200,metadata=0x1,tp_dst=53, priority 3000, cookie 0x2\n    set_field:0x4000000000000/0x4000000000000->xreg4\n    resubmit(,17)\n17. metadata=0x1, priority 0, cookie 0x3\n    resubmit(,18)\n" +
		"18. reg8=0x40000/0x40000,metadata=0x1, priority 1000, cookie 0x4\n    set_field:0/0x4000000000000->xreg4\n    controller(userdata=00.00.00.16)\nDatapath actions: userspace(pid=0,controller(reason=1))"
	traceBalanced = " 8. reg0=0x1, priority 50, cookie 0x1\n20. udp,metadata=0x1,nw_dst=169.254.169.254, priority 120, cookie 0x2\n    group:1\n     -> no live bucket\nDatapath actions: hash(l4(0)),recirc(0x2)"
	traceDropped  = " 8. reg0=0x1, priority 50, cookie 0x1\n16. udp,metadata=0x1, priority 3000, cookie 0x2\n    drop\nDatapath actions: drop"
)

// recorded returns a trace of Open vSwitch 4.0.0 with OVN 26.03.1: the testdata of that name.
func recorded(t *testing.T, name string) string {
	t.Helper()
	trace, err := os.ReadFile(filepath.Join("testdata", "trace-"+name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(trace)
}

func TestExplain(t *testing.T) {
	entryTable := uint8(29)
	dead := explained()
	dead.Well, dead.Findings = false, []api.Problem{{
		Code: api.CodeUpstream, About: "red-vm1", Text: "upstream 192.0.2.1:53 does not answer", Remedy: "look there", Commands: []string{"dig @192.0.2.1"},
	}}
	dead.Rcode, dead.Answer = "SERVFAIL", ";; opcode: QUERY, status: SERVFAIL, id: 1\n"
	large := explained()
	large.Answer = ";; ANSWER SECTION:\ndb.internal.\t5\tIN\tTXT\t\"" + strings.Repeat("x", 200) + "\"\n"
	for i := range 20 {
		large.Answer += fmt.Sprintf("db.internal.\t5\tIN\tA\t10.0.1.%d\n", i)
	}
	resumed := explained()
	resumed.Result, resumed.Rcode, resumed.Answer = "resumed", "", ""
	ovn := explained()
	ovn.Guest.PortKey = 3
	assumed := explained()
	assumed.Guest.Addresses, assumed.Guest.PortKey = nil, 3
	assumed.Question.Client, assumed.Question.Assumed = "192.0.2.1:50000", true
	unasked := explained()
	unasked.Unasked, unasked.Rcode, unasked.Answer, unasked.Result = "the guest has asked another server", "", "", ""
	placed := explained()
	placed.Guest.PortKey, placed.EntryTable = 3, &entryTable
	through := func(ports ...api.FunctionPort) *api.Explanation {
		e, entryTable := explained(), uint8(36) // as in the traces
		e.Guest.PortKey, e.Guest.FunctionPorts, e.EntryTable = 3, ports, &entryTable
		return e
	}
	functionPorts := []api.FunctionPort{{Port: "red-fn1", PortKey: 4}, {Port: "red-fn2", PortKey: 5}}
	overTCP := explained()
	overTCP.Question.TCP = true
	told := func(dhcp api.DHCP, change func(*api.Explanation)) *api.Explanation {
		e := explained()
		dhcp.Row, dhcp.CIDR, e.Guest.DHCP = "0b4e7c3e-0000-4000-8000-00000000000d", "10.0.1.0/24", &dhcp
		if change != nil {
			change(e)
		}
		return e
	}
	for _, tc := range []struct {
		name   string
		says   *api.Explanation
		trace  string
		args   []string
		status int
	}{
		{"tree", explained(), tracePunted, nil, 0},
		{"summary", explained(), tracePunted, []string{"--summary"}, 0},
		{"a large answer", large, tracePunted, []string{"--summary"}, 0},
		{"dead upstream", dead, tracePunted, []string{"--summary"}, 1},
		{"resumed", resumed, tracePunted, []string{"--summary"}, 0},
		{"not asked", unasked, traceDropped, []string{"--summary"}, 0},
		{"dropped by an ACL", ovn, traceDropped, []string{"--summary"}, 1},
		{"dropped by port security", assumed, traceSecurity, []string{"--summary"}, 1},
		{"dropped by an ACL before the entry flows", placed, traceDropped, []string{"--summary"}, 1},
		{"dropped, explained by an older process", placed, traceDropped, []string{"--summary"}, 1},
		{"rejected by an ACL", placed, traceRejected, []string{"--summary"}, 1},
		{"rejected by the verdict of an ACL", placed, traceVerdict, []string{"--summary"}, 1},
		{"rejected by the verdict of an unknown ACL", placed, strings.Replace(traceVerdict, "16. udp", "15. udp", 1), []string{"--summary"}, 1},
		{"through a network function", through(functionPorts...), recorded(t, "network-function"), []string{"--summary"}, 1},
		{"to a port that is not known", through(), recorded(t, "network-function"), []string{"--summary"}, 1},
		{"through a network function that is not active", through(functionPorts...), recorded(t, "inactive-function"), []string{"--summary"}, 1},
		{"to a load balancer", placed, traceBalanced, []string{"--summary"}, 4},
		{"beside load balancers of OVN 26.03", placed, "21. ct_state=+new+trk,ip,metadata=0x1, priority 100, cookie 0x2\n    move:NXM_NX_CT_TP_DST[]->NXM_NX_XXREG1[0..15]\n" + tracePunted, []string{"--summary"}, 4},
		{"dropped behind a punt that has expired", placed, traceExpired, []string{"--summary"}, 1},
		{"dropped behind a punt that has expired, in an unknown table", ovn, traceExpired, []string{"--summary"}, 1},
		{"dropped behind flows that are missing", placed, traceMissing, []string{"--summary"}, 1},
		{"dropped on another bridge", explained(), traceDropped, []string{"--summary"}, 1},
		{"not punted over TCP", overTCP, traceElsewhere, []string{"--summary"}, 1},
		{"no route", told(api.DHCP{}, nil), tracePunted, []string{"--summary"}, 0},
		{"a route by the router", told(api.DHCP{Router: "10.0.1.1"}, nil), tracePunted, []string{"--summary"}, 0},
		{"a query that is not for puntdns", told(api.DHCP{}, func(e *api.Explanation) { e.Unasked = "another" }), tracePunted, []string{"--summary"}, 0},
		{"any server", told(api.DHCP{}, func(e *api.Explanation) { e.Guest.Resolvers = []string{"any"} }), tracePunted, []string{"--summary"}, 0},
		{"no ovs-appctl", explained(), "", []string{"--summary"}, 4},
		{"no ovs-appctl, the tree", explained(), "", nil, 4},
		{"no ovs-appctl, and not well", dead, "", []string{"--summary"}, 1},
		{"no ovs-appctl, and not for puntdns", unasked, "", []string{"--summary"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			appctl(t, tc.trace)
			socket := explaining(t, tc.says, strings.HasSuffix(tc.name, "by an older process"))
			var out, errs bytes.Buffer
			status := puntctl.Run("test", append([]string{"-s", socket, "explain", "red-vm1", "db.internal"}, tc.args...), &out, &errs)
			if status != tc.status || errs.Len() > 0 {
				t.Errorf("exit status %d, want %d, %s\n%s", status, tc.status, &errs, &out)
			}
			golden.Check(t, out.String())
		})
	}
}

func TestExplainFormats(t *testing.T) {
	appctl(t, "")
	socket := process(t, api.PathExplain, http.StatusOK, explained())
	for _, tc := range []struct{ format, want string }{
		{"json", "{\n  \"well\": true,\n  \"findings\": [\n    {\n      \"code\": \"not-traced\","},
		{"yaml", "well: true\nfindings:\n  - code: not-traced\n    about: red-vm1\n"},
	} {
		var out, errs bytes.Buffer
		status := puntctl.Run("test", []string{"-s", socket, "explain", "red-vm1", "db.internal", "-o", tc.format}, &out, &errs)
		if status != 4 || !strings.HasPrefix(out.String(), tc.want) || !strings.Contains(out.String(), "executable file not found") {
			t.Errorf("%s: exit status %d, %s\n%s", tc.format, status, &errs, &out)
		}
	}
}

func TestExplainErrors(t *testing.T) {
	for _, tc := range []struct{ said, want int }{{http.StatusNotFound, 1}, {http.StatusBadRequest, 2}, {http.StatusServiceUnavailable, 3}} {
		socket := process(t, api.PathExplain, tc.said, api.Error{Message: "found, expected"})
		var out, errs bytes.Buffer
		status := puntctl.Run("test", []string{"-s", socket, "explain", "red-vm1", "db.internal"}, &out, &errs)
		if status != tc.want || out.Len() > 0 || !strings.Contains(errs.String(), "found, expected") {
			t.Errorf("%d: exit status %d, want %d, %q, %q", tc.said, status, tc.want, &out, &errs)
		}
	}
}
