// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

const controlCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        PROPERTIES
    }
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound SBGATE
        northbound $NB
        domain cloud.internal
    }
}
`

// operator asks a puntdns over its control socket.
type operator struct {
	t      *testing.T
	l      *lab.Lab
	socket string
}

var controlSocket = regexp.MustCompile(`(?m)^\s*control unix:(\S+)`)

// operator asks the process by the control socket of its Corefile.
func (s *server) operator() *operator {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	m := controlSocket.FindSubmatch(text)
	if err != nil || m == nil {
		s.t.Fatalf("no control socket (%v):\n%s", err, text)
	}
	return &operator{s.t, s.l, string(m[1])}
}

// connectedSince returns when the connection to the first bridge was opened, zero without one that serves.
func (s *server) connectedSince() (since time.Time) {
	s.t.Helper()
	var st api.Status
	if s.operator().ask(&st, "status"); st.Bridges[0].Serving && st.Bridges[0].Connection.Up {
		since = *st.Bridges[0].Connection.Since
	}
	return since
}

// shows waits until the status of the process is as ok wants it. The control socket may come late.
func (o *operator) shows(what string, ok func(*api.Status) bool) {
	o.t.Helper()
	o.l.Eventually(what, func() error {
		var s api.Status
		out, errs, _ := o.run("status", "-o", "json")
		err := json.Unmarshal([]byte(out), &s)
		return errorUnless(err == nil && ok(&s), "%v: %s%s", err, out, errs)
	})
}

// run runs puntctl, and returns what it says and its exit status.
func (o *operator) run(args ...string) (stdout, stderr string, status int) {
	o.t.Helper()
	var out, errs bytes.Buffer
	status = puntctl.Run("test", append([]string{"--socket", o.socket}, args...), &out, &errs)
	return out.String(), errs.String(), status
}

// ask asks for an answer.
func (o *operator) ask(answer any, args ...string) (status int) {
	o.t.Helper()
	out, errs, status := o.run(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		o.t.Fatalf("%v: %v: %q, %q", args, err, out, errs)
	}
	return status
}

// eventually waits until status has exactly these problems, and checks its exit status.
func (o *operator) eventually(codes ...string) (s api.Status) {
	o.t.Helper()
	o.l.Eventually(fmt.Sprintf("status with %q", codes), func() error {
		s = api.Status{}
		status := o.ask(&s, "status")
		var got []string
		for _, p := range s.Problems {
			got = append(got, p.Code)
		}
		want := 0
		if len(codes) > 0 {
			want = 1
		}
		if fmt.Sprint(got) != fmt.Sprint(codes) || status != want || s.Well != (want == 0) {
			return fmt.Errorf("exit status %d, %+v", status, s.Problems)
		}
		return nil
	})
	return s
}

func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}

// controlled is two tenants, a puntdns with a control socket, and its operator.
type controlled struct {
	overlap
	*operator
	server *server
	// southbound is the way to the database.
	southbound *lab.Gate
}

func newControlled(t *testing.T) *controlled {
	n := newOverlap(t)
	socket := filepath.Join(n.Dir, "control.sock")
	c := &controlled{overlap: n, operator: &operator{t, n.Lab, socket}, southbound: n.Gate("unix:" + filepath.Join(n.Dir, "sbgate.sock"))}
	c.southbound.Open(n.SB)
	c.server = serve(t, n.Lab, c.corefile("control unix:"+socket))
	return c
}

// corefile returns the Corefile with more properties of ofpunt.
func (c *controlled) corefile(properties string) string {
	return corefile(c.Lab, replaceAll(controlCorefile, "PROPERTIES", properties, "SBGATE", c.southbound.Endpoint))
}

// test runs a subtest, whose failures are its own.
func (c *controlled) test(t *testing.T, name string, f func(t *testing.T, c *controlled)) {
	t.Run(name, func(t *testing.T) {
		of := *c
		of.operator = &operator{t, c.Lab, c.socket}
		f(t, &of)
	})
}

// asked asks a question of a guest, which has to be answered.
func (c *controlled) asked(g *lab.Guest, want string) {
	c.operator.t.Helper()
	r, err := exchange(within(c.operator.t, wait), g, resolver4, "db.internal.", dns.TypeA)
	if err != nil || inShort(r) != want {
		c.operator.t.Fatalf("%s: %v, %v, want %s", g.Name, r, err, want)
	}
}

// What an operator asks and is told, with faults that are planted and taken away.
func TestControl(t *testing.T) {
	t.Parallel()
	c := newControlled(t)
	for _, tc := range []struct {
		name string
		f    func(t *testing.T, c *controlled)
	}{
		{"well", controlWell},
		{"guests", controlGuests},
		{"names", controlNames},
		{"who may ask", controlWhoMayAsk},
		{"clients beside a load", controlBesideLoad},
		{"an interface that is not served", controlUnserved},
		{"doctor", controlDoctor},
		{"a database that is away", controlDatabase},
		{"a switch that hangs", controlLease},
		{"reloads", controlReloads},
		{"a process that takes over", controlTakeOver},
	} {
		c.test(t, tc.name, tc.f)
	}
	if _, err := os.Lstat(c.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
	if _, errs, status := c.operator.run("status"); status != 3 || !strings.Contains(errs, "there is no such socket") {
		t.Errorf("exit status %d, %s", status, errs)
	}
}

func controlWell(t *testing.T, c *controlled) {
	c.asked(c.red, "NOERROR 10.0.1.101")
	s := c.eventually()
	if len(s.Bridges) != 1 || len(s.Databases) != 2 {
		t.Fatalf("%+v", s)
	}
	b := &s.Bridges[0]
	if b.Name != "br-int" || !b.Serving || b.Chassis != "node1" || !b.Connection.Up || !strings.HasPrefix(b.Connection.Switch, "Open vSwitch ") {
		t.Errorf("%+v", b)
	}
	if f := b.Flows; f.Expected != privateFlows+2*(guestFlows+rateFlows) || f.Counted == nil || f.Counted.Flows != f.Expected {
		t.Errorf("%+v, want %d", f, privateFlows+2*(guestFlows+rateFlows))
	}
	// The flow that is named is OVN's, and the cookie is that of our flows.
	if b.Placement.Table == nil || !strings.Contains(c.Node.OFCTL("dump-flows", "br-int", fmt.Sprintf("table=%d,cookie=%s/-1", *b.Placement.Table, b.Flows.Cookie)), "priority=200") {
		t.Errorf("%+v, %+v", b.Placement, b.Flows)
	}
	for _, d := range s.Databases {
		if !d.Synced || d.Model != "standalone" || d.Snapshot.Networks != 2 || d.Snapshot.DNSRows != 3 || d.Snapshot.AgeSeconds == nil {
			t.Errorf("%+v", d)
		}
	}
	c.Eventually("a beat", func() error {
		l := c.eventually().Bridges[0].Lease
		if l.LastHeartbeatSecondsAgo == nil || l.LeftSeconds == nil || *l.LeftSeconds <= 0 || *l.LeftSeconds > l.Seconds || l.Seconds != shortLease.Seconds() {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	out, _, _ := c.operator.run("status")
	if !strings.HasPrefix(out, "well\n") || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	t.Logf("puntctl status\n%s", out)
	yaml, _, _ := c.operator.run("status", "-o", "yaml")
	if !strings.HasPrefix(yaml, "well: true\nproblems: []\nwarnings: []\nprocess:\n  version: ") {
		t.Errorf("%q", yaml)
	}
}

func controlGuests(t *testing.T, c *controlled) {
	var before, now api.Guests
	c.ask(&before, "guests", "red-vm1")
	if len(before.Guests) != 1 {
		t.Fatalf("%+v", before)
	}
	for range 3 {
		c.asked(c.red, "NOERROR 10.0.1.101")
	}
	c.Eventually("the switch has counted", func() error {
		now = api.Guests{}
		c.ask(&now, "guests", "red-vm1")
		if h := now.Guests[0].FlowCounters; h == nil || h.Queries < before.Guests[0].FlowCounters.Queries+3 || h.Flows != guestFlows+rateFlows ||
			h.LastQuerySecondsAgo == nil || *h.LastQuerySecondsAgo > wait.Seconds() {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
	g := now.Guests[0]
	g.FlowCounters, g.DatapathKey, g.PortKey = nil, 0, 0
	want := api.Guest{
		Bridge: "br-int", Port: "red-vm1", Switch: "red", Network: strings.TrimSpace(c.NBCTL("get", "Logical_Switch", "red", "_uuid")),
		InPort: uint32(c.red.OFPort), Interface: c.red.NodePort, MACs: []string{c.red.MAC}, Addresses: []string{"10.0.1.11", "fd00:1::11"},
		Resolvers: []string{"169.254.169.254:53", "[fd00::254]:53"},
	}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out, _, _ := c.operator.run("guests")
	t.Logf("puntctl guests\n%s", out)
	if _, errs, status := c.operator.run("guests", "nobody"); status != 1 || !strings.Contains(errs, "\"nobody\"") {
		t.Errorf("exit status %d, %s", status, errs)
	}
}

func controlNames(t *testing.T, c *controlled) {
	var all api.Names
	c.ask(&all, "names", "DB.internal")
	if all.Kind != "name" || len(all.Networks) != 2 || all.Networks[0].Switch != "blue" || all.Networks[1].Switch != "red" {
		t.Fatalf("%+v", all)
	}
	for i, want := range []string{"10.0.1.201 fd00:1::201", "10.0.1.101 fd00:1::101"} {
		v := all.Networks[i].Names[0].Values
		if len(v) != 1 || !v[0].Wins || v[0].Source != "dns" || strings.Join(v[0].Addresses, " ") != want {
			t.Errorf("%+v, want %s", v, want)
		}
		if of := c.NBCTL("get", "DNS", v[0].Row, "records"); !strings.Contains(of, strings.Fields(want)[0]) {
			t.Errorf("row %s has %s", v[0].Row, of)
		}
	}
	// A hostname, and a record that wins over it.
	row := c.AddDNS(map[string]string{"peer": "10.0.1.77"}, "red")
	defer c.NBCTL("remove", "Logical_Switch", "red", "dns_records", row)
	c.Eventually("two values", func() error {
		all = api.Names{}
		c.ask(&all, "names", "red")
		for _, n := range all.Networks[0].Names {
			if n.Name != "peer." {
				continue
			}
			if v := n.Values; len(v) == 2 && v[0].Row == row && v[0].Wins && v[1].Port == "red-peer" && !v[1].Wins {
				return nil
			}
			return fmt.Errorf("%+v", n)
		}
		return fmt.Errorf("%+v", all)
	})
	c.ask(&all, "names", "peer.cloud.internal")
	if v := all.Networks[0].Names[0].Values; len(v) != 1 || v[0].DomainFrom != "corefile" || v[0].Port != "blue-peer" {
		t.Errorf("%+v", all)
	}
	all = api.Names{}
	if c.ask(&all, "names", "blue-vm1"); all.Kind != "port" || len(all.Networks) != 1 || all.Networks[0].Switch != "blue" {
		t.Errorf("%+v", all)
	}
	if _, errs, status := c.operator.run("names", "nobody.example"); status != 1 || !strings.Contains(errs, "no network knows it") {
		t.Errorf("exit status %d, %s", status, errs)
	}
	out, _, _ := c.operator.run("names", "db.internal")
	t.Logf("puntctl names db.internal\n%s", out)
	out, _, _ = c.operator.run("names", "red")
	t.Logf("puntctl names red\n%s", out)
}

// curl asks for the status, as a user, and returns the HTTP status.
func (c *controlled) curl(user string) (string, error) {
	return c.Node.Exec(within(c.operator.t, wait), "setpriv", "--reuid="+user, "--clear-groups", "curl", "-s", "-o", "/dev/stderr", "-w", "%{http_code}", "--unix-socket", c.socket, "http://puntdns"+api.PathStatus)
}

func controlWhoMayAsk(t *testing.T, c *controlled) {
	if info, err := os.Stat(c.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, err := c.curl("root"); code != "200" {
		t.Errorf("root: %s, %v", code, err)
	}
	if err := os.Chmod(c.Dir, 0o755); err != nil { // so that it is the socket that refuses
		t.Fatal(err)
	}
	if code, err := c.curl("nobody"); err == nil || code != "000" {
		t.Errorf("nobody: %s, %v", code, err)
	}
	if err := os.Chmod(c.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, err := c.curl("nobody"); code != "403" {
		t.Errorf("nobody, with a socket for all: %s, %v", code, err)
	}
	if err := os.Chmod(c.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	c.eventually()
}

func controlUnserved(t *testing.T, c *controlled) {
	c.Node.VSCTL("add-port", "br-int", "ghost", "--", "set", "interface", "ghost", "type=internal", "external_ids:iface-id=ghost")
	c.eventually(api.CodeUnserved)
	var all api.Guests
	c.ask(&all, "guests")
	want := "Southbound has no logical port of this name"
	if i := slices.IndexFunc(all.Unserved, func(u api.Unserved) bool { return u.Port == "ghost" }); i < 0 || all.Unserved[i].Reason != want || all.Unserved[i].Expected {
		t.Errorf("%+v, want %s", all.Unserved, want)
	}
	out, _, _ := c.operator.run("guests")
	t.Logf("puntctl guests\n%s", out)
	out, _, status := c.operator.run("doctor")
	if status != 1 || !strings.Contains(out, `port "ghost" is not served`) {
		t.Errorf("exit status %d\n%s", status, out)
	}
	c.Node.VSCTL("del-port", "ghost")
	c.eventually()
}

func controlDoctor(t *testing.T, c *controlled) {
	target := "--vswitchd=" + c.Node.AppCtlTarget("ovs-vswitchd")
	out, _, status := c.operator.run("doctor", target)
	for _, want := range []string{"port red-vm1: queries to 169.254.169.254 over UDP and TCP, to fd00::254 over UDP and TCP are punted", "port blue-vm1: queries to 169.254.169.254 over UDP and TCP, to fd00::254 over UDP and TCP are punted"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("exit status %d, want %s\n%s", status, want, out)
		}
	}
	row := strings.TrimSpace(c.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24", "options:dns_server=192.0.2.53"))
	c.NBCTL("set", "Logical_Switch_Port", "red-vm1", "dhcpv4_options="+row)
	c.NBCTL("acl-add", "red", "from-lport", "2000", "udp.dst == 53", "drop")
	c.Sync()
	c.Eventually("what doctor says", func() error {
		out, _, status = c.operator.run("doctor", target, "red")
		for _, want := range []string{
			"port red-vm1: DHCP announces dns_server 192.0.2.53 to the guest, and none",
			"port red-vm1: it has no route to 169.254.169.254: its DHCP options have neither router nor classless_static_route",
			"port red-vm1: queries to 169.254.169.254 over UDP are dropped before the punt: an ACL drops it (row ",
			"ovn-trace --ct=new ",
		} {
			if status != 1 || !strings.Contains(out, want) {
				return fmt.Errorf("exit status %d, want %s\n%s", status, want, out)
			}
		}
		return nil
	})
	t.Logf("puntctl doctor red\n%s", out)
	// What there is to paste works.
	i := strings.Index(out, "ovn-trace ")
	line, _, _ := strings.Cut(out[i:], "\n")
	if said, err := c.Node.Exec(within(t, wait), "env", "OVN_SB_DB="+c.SB, "bash", "-c", line); err != nil || !strings.Contains(said, "drop;") {
		t.Errorf("%s: %v\n%s", line, err, said)
	}
	if out, _, status := c.operator.run("doctor", target, "blue"); status != 0 {
		t.Errorf("blue: exit status %d\n%s", status, out)
	}
	c.NBCTL("acl-del", "red", "from-lport", "2000", "udp.dst == 53")
	c.NBCTL("clear", "Logical_Switch_Port", "red-vm1", "dhcpv4_options")
	c.Sync()
}

func controlDatabase(t *testing.T, c *controlled) {
	c.southbound.Close()
	s := c.eventually(api.CodeDatabase)
	if p := s.Problems[0]; p.About != "OVN_Southbound" || !strings.Contains(p.Text, "not in sync") {
		t.Errorf("%+v", p)
	}
	c.asked(c.red, "NOERROR 10.0.1.101") // by the last snapshot
	out, _, status := c.operator.run("status")
	if status != 1 || !strings.HasPrefix(out, "not well: OVN_Southbound: not in sync: ") {
		t.Errorf("exit status %d\n%s", status, out)
	}
	c.southbound.Open(c.SB)
	c.eventually()
}

func controlLease(t *testing.T, c *controlled) {
	vswitchd := c.Node.Daemon("ovs-vswitchd")
	if err := vswitchd.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = vswitchd.Signal(syscall.SIGCONT) }()
	c.Eventually("a lapsed lease", func() error {
		var s api.Status
		if status := c.ask(&s, "status"); status != 1 || s.Problems[0].Code != api.CodeLease && s.Problems[0].Code != api.CodeSwitch {
			return fmt.Errorf("exit status %d, %+v", status, s.Problems)
		}
		return nil
	})
	if err := vswitchd.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.eventually()
	c.Node.Kill("ovs-vswitchd")
	s := c.eventually(api.CodeSwitch)
	if f := s.Bridges[0].Connection.Failure; f == nil {
		t.Errorf("%+v", s.Bridges[0].Connection)
	}
	c.Node.Revive("ovs-vswitchd")
	c.eventually()
}

func controlReloads(t *testing.T, c *controlled) {
	before, err := os.Stat(c.socket)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(c.Dir, "moved.sock")
	for _, tc := range []struct{ properties, log string }{
		{"control unix:" + c.socket + "\n        grace 50s", logReload},
		{"control unix:" + filepath.Join(c.Dir, "none", "control.sock"), "expected a folder that this user may write to"},
		{"control unix:" + strings.TrimPrefix(c.SB, "unix:"), "listens there; expected a path of this process's own"},
	} {
		c.server.logsAfter(func() { c.server.rewrite(t, c.corefile(tc.properties)) }, tc.log)
		if now, err := os.Stat(c.socket); err != nil || !os.SameFile(before, now) {
			t.Errorf("%s: %v", tc.properties, err)
		}
		c.eventually()
	}
	c.server.reload(c.corefile("control unix:" + moved))
	if _, err := os.Stat(c.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket before: %v", err)
	}
	at := &operator{t, c.Lab, moved}
	at.eventually()
	c.server.reload(c.corefile(""))
	if _, err := os.Stat(moved); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the property: %v", err)
	}
	c.server.reload(c.corefile("control unix:" + c.socket))
	c.eventually()
}

// A process that takes over waits for the socket, and has it once the one before has ended.
func controlTakeOver(t *testing.T, c *controlled) {
	text := c.corefile("control unix:" + c.socket)
	text = replaceAll(text, readyAddr, "127.0.0.1:8182", metricsAddr, "127.0.0.1:9154")
	second := launch(t, c.Lab, c.Node, "second", text)
	second.log(logSocketHeld, strconv.Itoa(c.server.Pid))
	s := c.eventually(api.CodeOtherProcess)
	if s.Process.PID != c.server.Pid || !s.Bridges[0].Flows.OtherProcess {
		t.Errorf("%+v", s)
	}
	c.server.endWell()
	second.log(logSocketOpened)
	if s := c.eventually(); s.Process.PID != second.Pid {
		t.Errorf("%+v", s.Process)
	}
	second.endWell()
}
