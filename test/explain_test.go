// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

const explainCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:SOCKET
    }
    metadata
    errors
    log
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    audit AUDIT
    ovnhosts {
        southbound $SB
        northbound $NB
        fallthrough
    }
    cache
    private
    forward . UPSTREAM
}
`

// explained is two tenants whose queries are explained.
type explained struct {
	overlap
	*operator
	server   *server
	upstream *lab.DNSServer
	audit    string
}

// traced returns the arguments of an explanation with a trace of the switch.
func (x *explained) traced(args ...string) []string {
	return append([]string{"explain", "--vswitchd", x.Node.AppCtlTarget("ovs-vswitchd")}, args...)
}

// explain explains a query. The switch is traced.
func (x *explained) explain(args ...string) (e api.Explanation, status int) {
	x.operator.t.Helper()
	status = x.ask(&e, x.traced(args...)...)
	return e, status
}

// step returns the step of a plugin.
func (x *explained) step(e *api.Explanation, plugin string) api.Step {
	x.operator.t.Helper()
	for _, s := range e.Steps {
		if s.Plugin == plugin {
			return s
		}
	}
	x.operator.t.Fatalf("no step of %s: %+v", plugin, e.Steps)
	return api.Step{}
}

// The way of a query, and what explaining leaves as it is.
func TestExplain(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	aclGuest(n.Lab, "red", 1, 2) // so that the network is read, whatever becomes of the first guest
	n.Sync()
	socket := filepath.Join(n.Dir, "control.sock")
	x := &explained{
		overlap: n, operator: &operator{t, n.Lab, socket}, audit: filepath.Join(n.Dir, "audit.json"),
		upstream: n.Upstream("www.example.org. 60 IN A 192.0.2.5", "changed.example.org. 60 IN A 192.0.2.6"),
	}
	x.server = serve(t, n.Lab, corefile(n.Lab, replaceAll(explainCorefile, "SOCKET", socket, "AUDIT", x.audit, "UPSTREAM", x.upstream.Addr)))
	for _, tc := range []struct {
		name string
		f    func(t *testing.T, x *explained)
	}{
		{"well", explainWell},
		{"cache", explainCache},
		{"nothing is counted", explainUncounted},
		{"wrong questions", explainWrong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := *x
			of.operator = &operator{t, n.Lab, socket}
			tc.f(t, &of)
		})
	}
	x.server.endWell()
}

func explainWell(t *testing.T, x *explained) {
	for _, tc := range []struct{ port, name, qtype, server, want string }{
		{"red-vm1", "db.internal", "A", "", "NOERROR 10.0.1.101"},
		{"blue-vm1", "db.internal.", "a", "fd00::254", "NOERROR 10.0.1.201"},
		{"red-vm1", "db.internal", "AAAA", "", "NOERROR fd00:1::101"},
		{x.blue.NodePort, "peer", "", "169.254.169.254:53", "NOERROR 10.0.1.202"},
	} {
		args := []string{tc.port, tc.name}
		if tc.qtype != "" {
			args = append(args, tc.qtype)
		}
		if tc.server != "" {
			args = append(args, "--server", tc.server)
		}
		e, status := x.explain(args...)
		if got := e.Rcode + " " + strings.Join(answerData(e.Answer), " "); status != 0 || !e.Well || got != tc.want {
			t.Errorf("%v: exit status %d, %q, want %q: %+v", args, status, got, tc.want, e.Findings)
		}
		if e.Trace == nil || !e.Trace.Punted {
			t.Errorf("%v: %+v", args, e.Trace)
		}
		if s := x.step(&e, "ovnhosts"); s.Verdict != api.VerdictAnswers || len(s.Notes) == 0 {
			t.Errorf("%v: %+v", args, s)
		}
	}
	e, _ := x.explain("red-vm1", "db.internal", "--tcp")
	row := strings.Join(strings.Fields(x.NBCTL("--columns=_uuid", "--bare", "find", "DNS", `records:left.internal="10.0.1.50 fd00:1::50"`)), " ")
	if s := x.step(&e, "ovnhosts"); !strings.Contains(strings.Join(s.Notes, "\n"), row) || !strings.Contains(e.Without, "answers over UDP only") {
		t.Errorf("want row %s: %+v, %s", row, s, e.Without)
	}
	e, _ = x.explain("red-vm1", "db.internal")
	if !strings.Contains(e.Without, "10.0.1.101") || !strings.Contains(e.Without, row) {
		t.Errorf("without puntdns: %s, want row %s", e.Without, row)
	}
	if len(e.Flows) < 3 || e.Guest.Switch != "red" || e.Result != "answered" || e.Reason != "chain" {
		t.Errorf("%+v", e)
	}
	out, _, _ := x.operator.run("explain", "red-vm1", "db.internal", "--vswitchd", x.Node.AppCtlTarget("ovs-vswitchd"))
	t.Logf("puntctl explain red-vm1 db.internal\n%s", out)
	// Of a switch that can't be asked, puntctl does not know whether it drops the query.
	out, _, status := x.operator.run("explain", "red-vm1", "db.internal", "--summary", "--vswitchd", filepath.Join(x.Dir, "none.ctl"))
	if !strings.HasPrefix(out, "port red-vm1 asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.101\nwarning: ") || !strings.Contains(out, "["+api.CodeNotTraced+"]") || status != 4 {
		t.Errorf("exit status %d, want 4: %q", status, out)
	}
}

// answerData returns the data of the records of an answer that is printed as by dig.
func answerData(answer string) (all []string) {
	_, section, _ := strings.Cut(answer, "ANSWER SECTION:\n")
	section, _, _ = strings.Cut(section, "\n\n")
	for line := range strings.Lines(section) {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, f[4])
		}
	}
	return all
}

// asked asks for a name in the place of nobody.
func (x *explained) asked(g *lab.Guest, name, want string) {
	x.operator.t.Helper()
	r, err := exchange(within(x.operator.t, wait), g, resolver4, name, dns.TypeA)
	if err != nil || inShort(r) != want {
		x.operator.t.Fatalf("%s: %v, %v, want %s", g.Name, r, err, want)
	}
}

func explainCache(t *testing.T, x *explained) {
	const name, answer = "www.example.org.", "NOERROR 192.0.2.5"
	for _, want := range []string{"has no entry", "has no entry"} { // explaining stores nothing
		e, status := x.explain("red-vm1", name)
		if s := x.step(&e, "cache"); status != 0 || s.Verdict != api.VerdictLeft || !strings.Contains(s.Notes[0], want) {
			t.Errorf("exit status %d, %+v, want %q", status, s, want)
		}
		if s := x.step(&e, "forward"); s.Verdict != api.VerdictAnswers {
			t.Errorf("%+v", s)
		}
	}
	x.asked(x.red, name, answer)
	e, status := x.explain("red-vm1", name)
	if s := x.step(&e, "cache"); status != 0 || !strings.Contains(s.Notes[0], "has an entry, which the guest gets: NOERROR A 192.0.2.5, for ") {
		t.Errorf("exit status %d, %+v: %+v", status, s, e.Findings)
	}
	out, _, _ := x.operator.run("explain", "red-vm1", name)
	t.Logf("puntctl explain red-vm1 %s\n%s", name, out)
}

func explainUncounted(t *testing.T, x *explained) {
	count := func() (all []float64) {
		for _, m := range []struct {
			name   string
			labels []string
		}{
			{"coredns_dns_requests_total", nil},
			{"coredns_ofpunt_packet_ins_total", []string{"bridge", "br-int", "result", "answered", "reason", "chain"}},
			{"coredns_ovnhosts_answers_total", nil},
		} {
			all = append(all, x.server.metric(m.name, m.labels...))
		}
		return all
	}
	first := count()
	x.asked(x.red, "db.internal.", "NOERROR 10.0.1.101")
	var before []float64
	x.Eventually("each counter has what the guest has asked, which may come behind the answer", func() error {
		before = count()
		for i := range before {
			if before[i] != first[i]+1 {
				return fmt.Errorf("%v, before %v", before, first)
			}
		}
		return nil
	})
	for range 3 {
		if _, status := x.explain("red-vm1", "db.internal"); status != 0 {
			t.Errorf("exit status %d", status)
		}
	}
	if now := count(); !slices.Equal(now, before) {
		t.Errorf("counted %v, before %v", now, before)
	}
	// What is asked later is in the audit log, so what was explained before would be.
	x.asked(x.red, "red.internal.", "NOERROR 10.0.1.103")
	x.Eventually("the audit log", func() error {
		text := readFile(t, x.audit)
		return errorUnless(strings.Contains(text, "red.internal"), "%s", text)
	})
	if text := readFile(t, x.audit); strings.Count(text, `"db.internal."`) != 1 {
		t.Errorf("db.internal is there other than once:\n%s", text)
	}
}

func explainWrong(t *testing.T, x *explained) {
	long := strings.Repeat("a", 64)
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"nobody", "db.internal"}, 1, `"nobody": no guest of this node has this port, interface or address`},
		{[]string{"10.0.1.11", "db.internal"}, 2, `"10.0.1.11" is ambiguous: port blue-vm1 of switch blue on br-int, port red-vm1 of switch red on br-int have it`},
		{[]string{"02:00:00:00:01:11", "db.internal"}, 2, "is ambiguous"},
		{[]string{"red-vm1", long + ".internal"}, 2, "expected a domain name"},
		{[]string{"red-vm1", "a..b"}, 2, "expected a domain name"},
		{[]string{"red-vm1", ""}, 2, "expected a domain name"},
		{[]string{"red-vm1", "\x00\x1b[31m" + long}, 2, "expected a domain name"},
		{[]string{"red-vm1", "10.0.1.101"}, 2, "101.1.0.10.in-addr.arpa. with type PTR"},
		{[]string{"red-vm1", "db.internal", "nonsense"}, 2, `TYPE "nonsense"`},
		{[]string{"red-vm1", "db.internal", "--server", "nowhere"}, 2, `server "nowhere": expected IP`},
		{[]string{"red-vm1", "db.internal", "--from", "fd00:1::11"}, 2, "from fd00:1::11, to 169.254.169.254:53: expected addresses of one family"},
		{[]string{"red-vm1", "db.internal", "--from", "me"}, 2, `from "me": expected an IP address of the guest`},
		{[]string{"red-vm1"}, 2, "NAME"},
	} {
		_, errs, status := x.operator.run(append([]string{"explain"}, tc.args...)...)
		if status != tc.status || !strings.Contains(errs, tc.want) {
			t.Errorf("%q: exit status %d, %s, want %d and %q", tc.args, status, errs, tc.status, tc.want)
		}
	}
	e, status := x.explain("red-vm1", "db.internal", "--server", "192.0.2.99")
	if e.Rcode != "" || len(e.Steps) > 0 || status != 1 {
		t.Errorf("exit status %d: %+v", status, e)
	}
}

// errorUnless returns an error unless something is so.
func errorUnless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
