// SPDX-License-Identifier: Apache-2.0

package puntctl_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
)

// process is a control socket that answers as it is told.
func process(t *testing.T, path string, status int, answer any) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			t.Errorf("asked for %s, want %s", r.URL.Path, path)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return socket
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

const explainedTree = "port red-vm1 asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.101\n" +
	"|- guest: port red-vm1, switch red (0b4e7c3e-0000-4000-8000-000000000001)\n" +
	"|  |- bridge br-int, interface tap1, in_port 5, VLAN 0\n" +
	"|  |- addresses 10.0.1.11 fd00:1::11, MAC 02:00:00:00:01:11\n" +
	"|  `- resolver addresses 169.254.169.254:53\n" +
	"|- switch\n" +
	"|  |- table 29, priority 200, query: 7 packets, metadata=0x1,reg14=0x2,udp\n" +
	"|  |- table 200, priority 10, punt: 70 packets, any\n" +
	"|  `- a trace of the query comes to the punt\n" +
	"|- server block: Corefile:9 - .\n" +
	"|  |- view gold of Corefile:2 - gold.example does not match\n" +
	"|  |  |- metadata('ofpunt/switch') == 'gold': false\n" +
	"|  |  `- ofpunt/switch = \"red\"\n" +
	"|  `- labels\n" +
	"|     |- ofpunt/switch = red\n" +
	"|     `- ofpunt/router = (empty)\n" +
	"|- plugins: 118us (answered, chain)\n" +
	"|  |- errors, log left out\n" +
	"|  |- cache left out\n" +
	"|  |  `- has no entry\n" +
	"|  `- ovnhosts answers 42us\n" +
	"|     |- row 1 of table DNS: 10.0.1.101\n" +
	"|     `- a name of a tenant ?[31m\n" +
	"|- answer\n" +
	"|  |- ;; opcode: QUERY, status: NOERROR, id: 1\n" +
	"|  |- ;; QUESTION SECTION:\n" +
	"|  |- ;db.internal. IN  A\n" +
	"|  |- ;; ANSWER SECTION:\n" +
	"|  `- db.internal. 5 IN A 10.0.1.101\n" +
	"|- without puntdns: OVN's own DNS answers 10.0.1.101\n" +
	"`- what this has changed\n" +
	"   `- nothing\n"

const (
	tracePunted = "200. priority 10, cookie 0x70646e0000000001\n    controller\nDatapath actions: userspace"
	// OVN checks port security in table 73, and drops in the one behind that check.
	traceSecurity = " 8. metadata=0x1, priority 50, cookie 0x1\n    73. priority 0\n 9. reg0=0x8000/0x8000,metadata=0x1, priority 50, cookie 0x2\n    drop\nDatapath actions: drop"
	// A query that is not punted is dropped by the lookup of the destination, which is made up.
	traceExpired   = "29. udp,metadata=0x1, priority 200, cookie 0x70646e0000000001\n    resubmit(,200)\n    200. priority 0, cookie 0x70646e0000000001\n            resubmit(,30)\n" + traceLookup
	traceLookup    = "36. metadata=0x1, priority 50, cookie 0x3\n37. metadata=0x1, priority 0, cookie 0x4\n    drop\nDatapath actions: drop"
	traceElsewhere = "37. priority 0\n    resubmit\nDatapath actions: 7"
	traceDropped   = " 8. reg0=0x1, priority 50, cookie 0x1\n16. udp,metadata=0x1, priority 3000, cookie 0x2\n    drop\nDatapath actions: drop"
)

func TestExplain(t *testing.T) {
	entryTable := uint8(29)
	dead := explained()
	dead.Well, dead.Findings = false, []api.Problem{{
		Code: api.CodeUpstream, About: "red-vm1", Text: "upstream 192.0.2.1:53 does not answer", Remedy: "look there", Commands: []string{"dig @192.0.2.1"},
	}}
	dead.Rcode, dead.Answer = "SERVFAIL", ";; opcode: QUERY, status: SERVFAIL, id: 1\n"
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
	const (
		asks  = "port red-vm1 asks 169.254.169.254:53 for db.internal. A: "
		drops = "the query does not get to puntdns, whose answer would be NOERROR 10.0.1.101\n" +
			"not well: the switch drops the query of the guest before puntdns gets it: "
		lookup = "the query does not get to puntdns, whose answer would be NOERROR 10.0.1.101\n" +
			"not well: the switch does not punt the query; the last flow that it meets is in table 37: metadata=0x1, priority 0, cookie 0x4 [not-punted]\n" +
			"          the punt has expired, or the flows of puntdns are not there: see puntctl status\n"
		trace    = "            ovs-appctl ofproto/trace br-int in_port=5,udp,dl_src=02:00:00:00:01:11,dl_dst=0a:00:00:00:00:01,nw_src=10.0.1.11,nw_dst=169.254.169.254,nw_ttl=64,udp_src=50000,udp_dst=53\n"
		traceTCP = "            ovs-appctl ofproto/trace br-int in_port=5,tcp,dl_src=02:00:00:00:01:11,dl_dst=0a:00:00:00:00:01,nw_src=10.0.1.11,nw_dst=169.254.169.254,nw_ttl=64,tcp_src=50000,tcp_dst=53\n"
		ovnTrace = "            ovn-trace --ct=new 0b4e7c3e-0000-4000-8000-000000000001 'inport == \"red-vm1\" && eth.src == 02:00:00:00:01:11 && eth.dst == 0a:00:00:00:00:01 && ip4.src == 10.0.1.11 && ip4.dst == 169.254.169.254 && ip.ttl == 64 && udp.src == 50000 && udp.dst == 53'\n"
		lflow    = "            ovn-sbctl lflow-list 0b4e7c3e-0000-4000-8000-000000000001 0x2    # the logical flow\n"
	)
	replaced := strings.NewReplacer("nw_src=10.0.1.11", "nw_src=192.0.2.1", "ip4.src == 10.0.1.11", "ip4.src == 192.0.2.1")
	for _, tc := range []struct {
		name   string
		says   *api.Explanation
		trace  string
		args   []string
		status int
		want   string
	}{
		{"tree", explained(), tracePunted, nil, 0, explainedTree},
		{"summary", explained(), tracePunted, []string{"--summary"}, 0, asks + "NOERROR 10.0.1.101\n"},
		{"dead upstream", dead, tracePunted, []string{"--summary"}, 1, asks + "SERVFAIL\nnot well: upstream 192.0.2.1:53 does not answer [upstream]\n          look there\n            dig @192.0.2.1\n"},
		{"resumed", resumed, tracePunted, []string{"--summary"}, 0, asks + "puntdns lets it pass on to 169.254.169.254:53, whose answer the guest gets (chain)\n"},
		{"not asked", unasked, traceDropped, []string{"--summary"}, 0, asks + "puntdns is not asked, as the guest has asked another server\n"},
		{"dropped by an ACL", ovn, traceDropped, []string{"--summary"}, 1, asks + drops +
			"an ACL or a security group drops it, in table 16: udp,metadata=0x1, priority 3000, cookie 0x2 [not-punted]\n" +
			"          allow UDP and TCP to port 53 of the resolver address from the guest\n" + lflow + trace + ovnTrace},
		{"dropped by port security", assumed, traceSecurity, []string{"--summary"}, 1, asks + drops +
			"port security drops it, or the port is disabled, in table 9: reg0=0x8000/0x8000,metadata=0x1, priority 50, cookie 0x2; OVN knows no address of the guest, so the trace was made with 192.0.2.1 and 02:00:00:00:01:11 [not-punted]\n" +
			"          the guest may only use the addresses in port_security of its logical port: add the one that it uses, or have it use one of these; and see that `enabled` is not false; or give the address that the guest has by --from\n" +
			lflow + replaced.Replace(trace+ovnTrace)},
		{"dropped by an ACL before the entry flows", placed, traceDropped, []string{"--summary"}, 1, asks + drops +
			"an ACL or a security group drops it, in table 16: udp,metadata=0x1, priority 3000, cookie 0x2 [not-punted]\n" +
			"          allow UDP and TCP to port 53 of the resolver address from the guest\n" + lflow + trace + ovnTrace},
		{"dropped behind a punt that has expired", placed, traceExpired, []string{"--summary"}, 1, asks + lookup + trace + ovnTrace},
		{"dropped behind a punt that has expired, in an unknown table", ovn, traceExpired, []string{"--summary"}, 1, asks + lookup + trace + ovnTrace},
		{"dropped behind flows that are missing", placed, traceLookup, []string{"--summary"}, 1, asks + lookup + trace + ovnTrace},
		{"dropped on another bridge", explained(), traceDropped, []string{"--summary"}, 1, asks + drops +
			"a flow of another program on the bridge drops it, in table 16: udp,metadata=0x1, priority 3000, cookie 0x2 [not-punted]\n" +
			"          look for who has made that flow, by its cookie\n" + trace},
		{"not punted over TCP", overTCP, traceElsewhere, []string{"--summary"}, 1, asks + "the query does not get to puntdns, whose answer would be NOERROR 10.0.1.101\n" +
			"not well: the switch does not punt the query; the last flow that it meets is in table 37: priority 0 [not-punted]\n" +
			"          the punt has expired, or the flows of puntdns are not there: see puntctl status\n" + traceTCP},
		{"no route", told(api.DHCP{}, nil), tracePunted, []string{"--summary"}, 0, asks + "NOERROR 10.0.1.101\n" +
			"warning: DHCP gives the guest no route to 169.254.169.254: its DHCP options have neither router nor classless_static_route; unless it was given one by hand or by its image, its query never leaves it [no-route]\n" +
			"          give it one; a client that is told classless_static_route takes no router besides (RFC 3442), so its default route has to be there too\n" +
			"            ovn-nbctl set DHCP_Options 0b4e7c3e-0000-4000-8000-00000000000d options:classless_static_route='\"{169.254.169.254/32,0.0.0.0}\"'\n"},
		{"a route by the router", told(api.DHCP{Router: "10.0.1.1"}, nil), tracePunted, []string{"--summary"}, 0, asks + "NOERROR 10.0.1.101\n"},
		{"a query that is not for puntdns", told(api.DHCP{}, func(e *api.Explanation) { e.Unasked = "another" }), tracePunted, []string{"--summary"}, 0, asks + "puntdns is not asked, as another\n"},
		{"any server", told(api.DHCP{}, func(e *api.Explanation) { e.Guest.Resolvers = []string{"any"} }), tracePunted, []string{"--summary"}, 0, asks + "NOERROR 10.0.1.101\n"},
		{"no ovs-appctl", explained(), "", []string{"--summary"}, 0, asks + "NOERROR 10.0.1.101\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			appctl(t, tc.trace)
			socket := process(t, api.PathExplain, http.StatusOK, tc.says)
			var out, errs bytes.Buffer
			status := puntctl.Run("test", append([]string{"-s", socket, "explain", "red-vm1", "db.internal"}, tc.args...), &out, &errs)
			if status != tc.status || out.String() != tc.want || errs.Len() > 0 {
				t.Errorf("exit status %d, want %d, %s\n%s\nwant\n%s", status, tc.status, &errs, &out, tc.want)
			}
		})
	}
}

func TestExplainFormats(t *testing.T) {
	appctl(t, "")
	socket := process(t, api.PathExplain, http.StatusOK, explained())
	for _, tc := range []struct{ format, want string }{
		{"json", "{\n  \"well\": true,\n  \"findings\": [],\n  \"question\": {\n    \"port\": \"red-vm1\","},
		{"yaml", "well: true\nfindings: []\nquestion:\n  port: red-vm1\n"},
	} {
		var out, errs bytes.Buffer
		status := puntctl.Run("test", []string{"-s", socket, "explain", "red-vm1", "db.internal", "-o", tc.format}, &out, &errs)
		if status != 0 || !strings.HasPrefix(out.String(), tc.want) || !strings.Contains(out.String(), "executable file not found") {
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
