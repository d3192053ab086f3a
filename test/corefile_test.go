// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// endWell ends the server in order, once nothing is left in it of the test.
func (s *server) endWell() {
	s.t.Helper()
	s.settles()
	if err := s.Stop(); err != nil {
		s.t.Errorf("%s ended with %v, want exit status 0\n%s", s.Name, err, s.Log())
	}
}

// aclSwitch adds a switch with a router and allow-related ACLs both ways.
func aclSwitch(l *lab.Lab, name string, third int) {
	l.AddSwitch(name)
	l.AddRouter("r-"+name, lab.RouterPort{
		Switch: name, MAC: fmt.Sprintf("02:00:00:00:%02x:01", third),
		Networks: []string{fmt.Sprintf("10.0.%d.1/24", third), fmt.Sprintf("fd00:%d::1/64", third)},
	})
	for _, direction := range []string{"from-lport", "to-lport"} {
		l.NBCTL("acl-add", name, direction, "1000", "ip", "allow-related")
	}
}

// aclGuest adds a guest to a switch of aclSwitch, with port security.
func aclGuest(l *lab.Lab, sw string, third, number int) *lab.Guest {
	name := fmt.Sprintf("%s-vm%d", sw, number)
	return l.Node.AddGuest(lab.Guest{
		Name: name, Switch: sw, MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", third, 16+number),
		Addrs:    lab.Prefixes(fmt.Sprintf("10.0.%d.%d/24", third, 10+number), fmt.Sprintf("fd00:%d::%d/64", third, 10+number)),
		Gateway4: lab.Addr(fmt.Sprintf("10.0.%d.1", third)), Gateway6: lab.Addr(fmt.Sprintf("fd00:%d::1", third)),
		PortSecurity: true, Hostname: fmt.Sprintf("vm%d", number),
	})
}

// Blocks share a bridge and no socket; view and zone pick the one that answers.
func TestCorefileBlocks(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclSwitch(l, "blue", 2)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99"}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.2.99"}, "blue")
	red1, red2 := aclGuest(l, "red", 1, 1), aclGuest(l, "red", 1, 2)
	blue1, blue2 := aclGuest(l, "blue", 2, 1), aclGuest(l, "blue", 2, 2)
	l.Sync()

	t.Run("views and zones", func(t *testing.T) {
		up := l.Upstream("who.test. 60 IN A 192.0.2.3")
		l.WriteFile("hosts.red2", "192.0.2.2 who.test\n")
		s := launch(t, l, l.Node, "views", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    view second-of-red {
        expr metadata('ofpunt/port') == 'red-vm2'
    }
    hosts `+l.Dir+`/hosts.red2
}
. {
    ofpunt br-int
    metadata
    view red {
        expr metadata('ofpunt/switch') == 'red'
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    template IN A who.test {
        answer "{{ .Name }} 60 IN A 192.0.2.1"
    }
}
. {
    ofpunt br-int
    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . `+up.Addr+`
    ready `+readyAddr+`
    prometheus `+metricsAddr+`
}
a.test b.test {
    ofpunt br-int
    template ANY A {
        answer "{{ .Name }} 60 IN A 192.0.2.4"
    }
}
b.test c.test {
    ofpunt br-int
    metadata
    view blue {
        expr metadata('ofpunt/switch') == 'blue'
        expr metadata('ofpunt/port') != 'blue-vm1'
    }
    template ANY A {
        answer "{{ .Name }} 60 IN A 192.0.2.5"
    }
}`)
		s.ready(200)
		for _, tc := range []struct {
			asker *lab.Guest
			qname string
			want  string
		}{
			{red1, "who.test", "NOERROR 192.0.2.1"},
			{red2, "who.test", "NOERROR 192.0.2.2"},
			{blue1, "who.test", "NOERROR 192.0.2.3"},
			{blue2, "who.test", "NOERROR 192.0.2.3"},
			{red1, "db.internal", "NOERROR 10.0.1.99"},
			{blue1, "db.internal", "NOERROR 10.0.2.99"},
			// The block of this port alone has no ovnhosts.
			{red2, "db.internal", "SERVFAIL"},
			{red1, "x.a.test", "NOERROR 192.0.2.4"},
			{blue2, "X.b.Test", "NOERROR 192.0.2.4"},
			{blue2, "c.test", "NOERROR 192.0.2.5"},
			// Its view does not take them: the next zone up does.
			{blue1, "c.test", "NXDOMAIN"},
			{red1, "c.test", "SERVFAIL"},
		} {
			for _, address := range []string{"169.254.169.254", "fd00::254"} {
				r := tc.asker.Dig(tc.qname, "@"+address)
				if r.String() != tc.want {
					t.Errorf("%s asks %s for %s: %s, want %s\n%s", tc.asker.Name, address, tc.qname, r, tc.want, r.Out)
				}
			}
		}
		if n := up.Count("who.test"); n != 4 {
			t.Errorf("the upstream of one block was asked %d times, want 4", n)
		}
		if t.Failed() {
			t.Log(s.Log())
		}
		want := []string{"tcp " + readyAddr, "tcp " + metricsAddr}
		if got := openSockets(t, s); !slices.Equal(got, want) {
			t.Errorf("sockets %q, want %q", got, want)
		}
		s.endWell()
	})

	t.Run("no socket at all", func(t *testing.T) {
		s := launch(t, l, l.Node, "socketless", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
    }
}`)
		l.Eventually("an answer", func() error {
			if r := red1.Dig("vm2", "@169.254.169.254"); r.String() != "NOERROR 10.0.1.12" {
				return errors.New(r.String())
			}
			return nil
		})
		if got := openSockets(t, s); len(got) != 0 {
			t.Errorf("sockets %q, want none", got)
		}
		s.endWell()
	})

	t.Run("bind opens one", func(t *testing.T) {
		s := launch(t, l, l.Node, "bound", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    bind 127.0.0.1
    ovnhosts {
        southbound $SB
        default_switch blue
    }
    ready `+readyAddr+`
}`)
		s.ready(200)
		want := []string{"tcp 127.0.0.1:53", "tcp " + readyAddr, "tcp " + metricsAddr, "udp 127.0.0.1:53"}
		if got := openSockets(t, s); !slices.Equal(got, want) {
			t.Errorf("sockets %q, want %q", got, want)
		}
		if r := l.Node.Dig("db.internal", "@127.0.0.1"); r.String() != "NOERROR 10.0.2.99" {
			t.Errorf("through the socket: %s\n%s", r, r.Out)
		}
		expect(t, red1, "NOERROR 10.0.1.99", "db.internal", "@169.254.169.254")
		s.endWell()
	})
}

// openSockets are the Internet sockets of a process that take calls from
// anybody, as proc(5) has them: TCP ones that listen and UDP ones that are not
// connected. They are sorted.
func openSockets(t *testing.T, s *server) []string {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("descriptors of %s: %v", s.Name, err)
	}
	for _, fd := range fds {
		// One that has been closed meanwhile gives an error and no socket.
		target, _ := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var open []string
	for _, network := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", s.Pid, network))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n")[1:] {
			f := strings.Fields(line)
			const local, state, inode = 1, 3, 9
			// TCP_LISTEN, and TCP_CLOSE of an unconnected UDP socket.
			idle := map[string]string{"tcp": "0A", "udp": "07"}[network[:3]]
			if len(f) > inode && mine[f[inode]] && f[state] == idle {
				open = append(open, network+" "+procAddr(t, f[local]))
			}
		}
	}
	slices.Sort(open)
	return open
}

// procAddr reads an address of /proc/net, whose 32-bit words are in host order.
func procAddr(t *testing.T, s string) string {
	t.Helper()
	host, port, _ := strings.Cut(s, ":")
	var ip net.IP
	for i := 0; i+8 <= len(host); i += 8 {
		for j := 6; j >= 0; j -= 2 {
			n, err := strconv.ParseUint(host[i+j:i+j+2], 16, 8)
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			ip = append(ip, byte(n))
		}
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return net.JoinHostPort(ip.String(), strconv.FormatUint(n, 10))
}

// A reload changes who answers and nothing else; a Corefile that is wrong
// changes nothing.
func TestCorefileReload(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	text := func(ttl string) string {
		return corefile(l, `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
        ttl `+ttl+`
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    prometheus `+metricsAddr+`
}`)
	}
	s := launch(t, l, l.Node, "reloaded", text("30"))
	s.ready(200)
	ttl := func() (uint32, error) {
		r := vm.Dig("db.internal", "@169.254.169.254")
		if r.String() != "NOERROR 10.0.1.99" {
			return 0, fmt.Errorf("%s\n%s", r, r.Out)
		}
		return r.Answer[0].Header().Ttl, nil
	}
	has := func(want uint32) error {
		got, err := ttl()
		if err == nil && got != want {
			err = fmt.Errorf("TTL %d, want %d", got, want)
		}
		return err
	}
	if err := has(30); err != nil {
		t.Fatal(err)
	}
	before := standingFlows(l)
	if len(before) == 0 {
		t.Fatal("no flows")
	}
	installs := s.metric("coredns_ofpunt_flow_installs_total")

	// Somebody asks all the time, and is never without an answer.
	ctx, stop := context.WithCancel(context.Background())
	asked := make(chan error, 1)
	go func() {
		// The pause keeps the guest below its rate in the switch.
		for ; ; time.Sleep(pause) {
			r := vm.Dig("db.internal", "@169.254.169.254")
			select {
			case <-ctx.Done():
				asked <- nil
				return
			default:
			}
			if r.String() != "NOERROR 10.0.1.99" {
				asked <- fmt.Errorf("%s: %v\n%s", r, r.Err, r.Out)
				return
			}
		}
	}()
	defer stop()

	for i, tc := range []struct {
		name, text, failure string
		ttl                 uint32
	}{
		{"another ttl", text("60"), "", 60},
		{"a wrong property", text("soon"), `ttl: "soon": expected whole seconds`, 60},
		{"a wrong word", strings.Replace(text("90"), "ovnhosts", "ovnhost", 1), "ovnhost", 60},
		{"a block that is refused when it starts", text("90") + text("120"), `zone "\."`, 60},
		{"a socket that is taken", strings.Replace(text("90"), "ovnhosts", "bind 127.0.0.1\n ovnhosts", 1), `127\.0\.0\.1:53`, 60},
		{"another again", text("120"), "", 120},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.t = t
			if tc.name == "a socket that is taken" {
				pc, err := l.Node.ListenPacket("udp", "127.0.0.1:53")
				if err != nil {
					t.Fatal(err)
				}
				defer pc.Close()
			}
			if tc.failure == "" {
				s.rewrite(t, tc.text)
				l.Eventually("the new Corefile", func() error { return has(tc.ttl) })
			} else {
				failures := s.told(logReloadRefused)
				s.logsAfter(func() { s.rewrite(t, tc.text) }, logReloadRefused+`.*Corefile.reloaded as taken at [0-9: -]{19} stays in force: .*`+tc.failure)
				s.toldTimes(t, failures+1, logReloadRefused)
				if err := has(tc.ttl); err != nil {
					t.Error(err)
				}
			}
			// What ready and prometheus listen on comes back too.
			s.ready(200)
			if got := s.metric("coredns_ofpunt_flow_installs_total"); got != installs {
				t.Errorf("%v flows were installed, %v of them since the start (change %d)", got, got-installs, i)
			}
		})
	}
	s.t = t
	stop()
	if err := <-asked; err != nil {
		t.Errorf("a query while reloading: %v\n%s", err, s.Log())
	}
	// Each of them has stood all the while, under the same cookie.
	after := standingFlows(l)
	for match, f := range before {
		switch g, ok := after[match]; {
		case !ok || g.cookie != f.cookie:
			t.Errorf("flow %s was %+v, is %+v", match, f, g)
		case g.duration < f.duration:
			t.Errorf("flow %s was put there anew: %+v, before %+v", match, g, f)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d flows, before %d", len(after), len(before))
	}
	s.endWell()
	if got := standingFlows(l); len(got) != 0 {
		t.Errorf("flows are left: %v", got)
	}
}

// standingFlow is a flow of puntdns in the switch.
type standingFlow struct {
	cookie   string
	duration float64 // seconds since it was added
}

var dumpedFlow = regexp.MustCompile(`cookie=(0x[0-9a-f]+), duration=([0-9.]+)s, (table=\d+), .*?n_bytes=\d+, (.*) actions=`)

// flowTimeouts are said of a flow beside its match.
var flowTimeouts = regexp.MustCompile(`(hard_timeout|idle_timeout|idle_age|hard_age)=\d+,? ?`)

// standingFlows are the flows of any puntdns, by table and match.
func standingFlows(l *lab.Lab) map[string]standingFlow {
	all := map[string]standingFlow{}
	for _, m := range dumpedFlow.FindAllStringSubmatch(l.Node.OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000"), -1) {
		d, _ := strconv.ParseFloat(m[2], 64)
		all[m[3]+" "+flowTimeouts.ReplaceAllString(m[4], "")] = standingFlow{m[1], d}
	}
	return all
}

// A bridge that the local database does not know, though its socket is there, gets no
// flows: its guests keep what they have, until the name is mended.
func TestCorefileWrongBridge(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	right := n.corefile("", "", 9153, 8181)
	s := start(t, n.l, strings.Replace(right, "ofpunt br-int", "ofpunt br-itn", 1))
	s.ready(503)
	s.log(logNoBridge, "br-itn")
	s.operator().eventually(api.CodeNoBridge)
	expect := func(want string) {
		t.Helper()
		n.l.Eventually(want, func() error {
			r, err := exchange(within(t, wait), n.vm, resolver4, "db.internal.", dns.TypeA)
			if err != nil {
				return err
			}
			if got := withTTL(r); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	expect(ofNative)
	if flows := flowLines(n.l.Node.OFCTL("--no-stats", "dump-flows", lab.Bridge, ourCookie)); len(flows) > 0 {
		t.Errorf("flows: %s", flows)
	}
	s.rewrite(t, corefile(n.l, right))
	expect(ofSurvivor)
	s.ready(200)
	s.endWell()
}

// The process ends in order, and soon, while a reload is on trial.
func TestCorefileEndsOnTrial(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	right := n.corefile("", "", 9153, 8181)
	silent, err := n.l.Node.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	wrong := strings.Replace(right, "southbound $SB", "southbound tcp:"+silent.Addr().String(), 1)
	if wrong == right {
		t.Fatal("the Corefile names no Southbound")
	}
	for _, by := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(by.String(), func(t *testing.T) {
			s := start(t, n.l, right)
			s.ready(200)
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				if conn, err := silent.Accept(); err == nil {
					t.Cleanup(func() { conn.Close() })
				}
			}()
			s.rewrite(t, corefile(n.l, wrong))
			select {
			case <-asked:
			case <-time.After(wait):
				t.Fatalf("nobody asks the new database\n%s", s.Log())
			}
			// Nothing of the one that serves is touched meanwhile.
			if status, _, err := n.l.Node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready"); err != nil || status != 200 {
				t.Errorf("ready in the trial: %d, %v", status, err)
			}
			if err := s.Signal(by); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(within(t, wait)); err != nil {
				t.Errorf("it ended with %v, want exit status 0\n%s", err, s.Log())
			}
			// It has not waited for the trial's own end, after 10 s.
			s.toldTimes(t, 1, logReloadRefused+".*: the process ends$")
			if got := standingFlows(n.l); len(got) != 0 {
				t.Errorf("flows are left: %v", got)
			}
		})
	}
}

// A reload that would leave a bridge for one that is not there changes nothing.
func TestCorefileLosesBridge(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	right := n.corefile("", "", 9153, 8181)
	s := start(t, n.l, right)
	s.ready(200)
	before := standingFlows(n.l)
	q := questions(t, n.vm, resolver4)
	ask := func() {
		t.Helper()
		if err := paceFor(time.Second, 100, func(int) error { return q.ask("db.internal.", dns.TypeA, ofSurvivor) }); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		name, bridge, openflow string
		want                   string
	}{
		{"a name that the database does not know", "br-itn", "openflow $MGMT",
			`ofpunt br-itn: the local Open_vSwitch database has no bridge of this name; expected a bridge that is there, as br-int of the Corefile before is`},
		{"no such socket", "br-itn", "openflow unix:/nowhere/br-itn.mgmt",
			`ofpunt br-itn: openflow: .*no such file or directory; expected a bridge that is there, as br-int`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wrong := strings.Replace(strings.Replace(right, "ofpunt br-int", "ofpunt "+tt.bridge, 1), "openflow $MGMT", tt.openflow, 1)
			s.rewrite(t, corefile(n.l, wrong))
			s.log(tt.want)
			ask()
			s.ready(200)
		})
	}
	q.finish(wait).clean(t, "beside the reloads")
	after := standingFlows(n.l)
	for match, f := range before {
		if after[match].cookie != f.cookie {
			t.Errorf("the flow %s has gone, or is another", match)
		}
	}
	s.endWell()
}
