// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// routed is a tenant's network: two switches with a router between them, and on
// both the same names with other addresses.
type routed struct {
	*lab.Lab
	t        *testing.T
	vm, peer *lab.Guest // on red
	far      *lab.Guest // on green
}

// MAC addresses of the router's ports.
const (
	redGateway   = "02:00:00:00:01:01"
	greenGateway = "02:00:00:00:01:02"
)

func newRouted(t *testing.T) *routed {
	t.Helper()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red", "green"} {
		l.AddSwitch(sw)
		l.NBCTL("acl-add", sw, "from-lport", "1001", "ip", "allow-related",
			"--", "acl-add", sw, "to-lport", "1001", "ip", "allow-related")
	}
	l.AddRouter("r",
		lab.RouterPort{Switch: "red", MAC: redGateway, Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}},
		lab.RouterPort{Switch: "green", MAC: greenGateway, Networks: []string{"10.0.1.1/24", "fd00:11::1/64"}})
	l.AddDNS(map[string]string{"db.internal": "10.0.0.9 fd00:10::9"}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.9 fd00:11::9"}, "green")
	n := &routed{Lab: l, t: t}
	n.vm, n.peer, n.far = n.guest("red-vm", 11), n.guest("red-peer", 12), n.guest("green-far", 21)
	l.Sync()
	return n
}

// guest adds a guest to the switch that its name begins with, with the number in
// its MAC and addresses.
func (n *routed) guest(name string, number int, settings ...string) *lab.Guest {
	n.t.Helper()
	sw, _, _ := strings.Cut(name, "-")
	subnet := map[string]int{"red": 0, "green": 1}[sw]
	return n.Node.AddGuest(lab.Guest{
		Name: name, Switch: sw, MAC: fmt.Sprintf("02:00:00:00:00:%02d", number),
		Addrs:    lab.Prefixes(fmt.Sprintf("10.0.%d.%d/24", subnet, number), fmt.Sprintf("fd00:1%d::%d/64", subnet, number)),
		Gateway4: lab.Addr(fmt.Sprintf("10.0.%d.1", subnet)), Gateway6: lab.Addr(fmt.Sprintf("fd00:1%d::1", subnet)),
		PortSecurity: true, Settings: settings,
	})
}

// pipelineCorefile has puntdns with more properties of ofpunt, and what stands
// behind ovnhosts.
func pipelineCorefile(properties, fall, behind string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        ` + unlimited(properties) + `
    }
    metadata
    errors
    log . "asked {name} {type} by {/ofpunt/port} on {/ofpunt/switch}"
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ovnhosts {
        southbound $SB
        ` + fall + `
    }
    ` + behind + `
}
`
}

// modes are those of ofpunt, as pipelineCorefile takes them.
var modes = []struct{ name, properties, fall, behind string }{
	{name: "service"},
	{name: "hijack", properties: "address any", fall: "fallthrough", behind: "passthrough"},
}

// Resolver addresses, the defaults.
const (
	resolver4 = "169.254.169.254"
	resolver6 = "fd00::254"
)

// Answers to db.internal on the switch red. The TTL tells whose they are.
const (
	fromPuntdns = "NOERROR 30 10.0.0.9"
	fromOVN     = "NOERROR 3600 10.0.0.9"
	fromServer  = "NOERROR 77 192.0.2.77" // of a guest, see serverRecords
)

var serverRecords = []string{"db.internal. 77 IN A 192.0.2.77", "www.example.org. 77 IN A 192.0.2.77"}

// briefly is status, TTL and data of an answer.
func briefly(r *lab.DigResult) string {
	if r.Err != nil {
		return "no reply"
	}
	s := r.Status
	if len(r.Answer) > 0 {
		s += " " + strconv.Itoa(int(r.Answer[0].Header().Ttl)) + " " + strings.Join(r.Values(), " ")
	}
	return s
}

// expect asks once. An answer in want that has no TTL leaves it alone.
func expect(t *testing.T, g *lab.Guest, want string, args ...string) {
	t.Helper()
	if r := g.Dig(args...); briefly(r) != want && r.String() != want {
		t.Errorf("%s asks %q: %s, want %s\n%s", g.Name, args, briefly(r), want, r.Out)
	}
}

// expectSoon asks until the answer is right.
func expectSoon(t *testing.T, l *lab.Lab, g *lab.Guest, want string, args ...string) {
	t.Helper()
	l.Eventually(fmt.Sprintf("%s asks %q", g.Name, args), func() error {
		r := g.Dig(append([]string{"+time=1"}, args...)...)
		return errorUnless(briefly(r) == want || r.String() == want, "%s, want %s", briefly(r), want)
	})
}

// onward is what becomes of a guest's query with EDNS for db.internal that is not punted:
// a release of OVN that answers such queries does, else there is what whom it was sent to
// says.
func (n *routed) onward(g *lab.Guest, said string) string {
	switch {
	case !n.Release().DNSAnswersEDNS():
		return said
	case g.Switch == "green":
		return "NOERROR 3600 10.0.1.9"
	}
	return fromOVN
}

// ourCookie picks out the flows of puntdns, of whatever process.
const ourCookie = "cookie=0x70646e0000000000/0xffffff0000000000"

// dumpOurs returns our flows that match, sorted, each as ovs-ofctl prints it
// without counters and times.
func (n *routed) dumpOurs(match ...string) []string {
	n.t.Helper()
	return flowLines(n.Node.OFCTL("--no-stats", "--no-names", "dump-flows", lab.Bridge, strings.Join(append(match, ourCookie), ",")))
}

func flowLines(dump string) []string {
	var flows []string
	for sc := bufio.NewScanner(strings.NewReader(dump)); sc.Scan(); {
		if line := strings.TrimSpace(sc.Text()); strings.HasPrefix(line, "cookie=") {
			flows = append(flows, line)
		}
	}
	slices.Sort(flows)
	return flows
}

// countOVN counts the flows that are not ours.
func (n *routed) countOVN() int {
	n.t.Helper()
	return len(flowLines(n.Node.OFCTL("--no-stats", "dump-flows", lab.Bridge))) - len(n.dumpOurs())
}

// cookies are the cookies of our flows: one for each process that has some.
func (n *routed) cookies() []string {
	n.t.Helper()
	var all []string
	for _, f := range n.dumpOurs() {
		c, _, _ := strings.Cut(f, ",")
		all = append(all, c)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// portMatch matches what enters by a logical port.
func (n *routed) portMatch(port string) string {
	n.t.Helper()
	one := func(args ...string) string {
		n.t.Helper()
		return strings.TrimSpace(n.SBCTL(append([]string{"--bare"}, args...)...))
	}
	key := one("--columns=tunnel_key", "find", "Port_Binding", "logical_port="+port)
	datapath := one("get", "Datapath_Binding", one("--columns=datapath", "find", "Port_Binding", "logical_port="+port), "tunnel_key")
	return "reg14=" + key + ",metadata=" + datapath
}

// puntCount is how many packets were punted so far.
type puntCount struct{ entered, handled int }

var entryPackets = regexp.MustCompile(`(?m) table=(\d+), n_packets=(\d+),`)

// count asks the switch, what has come to the entry flows, and puntdns, what it
// has done with it.
func (n *routed) count(s *server) (c puntCount) {
	n.t.Helper()
	// The switch adds up what cached flows have seen from time to time.
	n.Node.Revalidate()
	for _, m := range entryPackets.FindAllStringSubmatch(n.Node.OFCTL("dump-flows", lab.Bridge, ourCookie), -1) {
		if !isPrivate(m[1]) {
			packets, err := strconv.Atoi(m[2])
			if err != nil {
				n.t.Fatal(err)
			}
			c.entered += packets
		}
	}
	c.handled = int(s.metric("coredns_ofpunt_packet_ins_total"))
	return c
}

// settled counts once no packet is on its way, as the last ones of a TCP connection may be.
func (n *routed) settled(s *server) (c puntCount) {
	n.t.Helper()
	c = n.count(s)
	n.Eventually("the end of the punts before", func() error {
		before := c
		c = n.count(s)
		return errorUnless(c == before, "%+v after %+v", c, before)
	})
	return c
}

// punts runs f, which must cause so many punts. One more, of another guest, marks
// the end: had f caused too many, they would be counted before it.
func (n *routed) punts(t *testing.T, s *server, want int, f func()) {
	t.Helper()
	before := n.settled(s)
	f()
	expect(t, n.peer, fromPuntdns, "@"+resolver4, "db.internal")
	want++
	var got puntCount
	n.Eventually("the count of punts", func() error {
		now := n.count(s)
		got = puntCount{now.entered - before.entered, now.handled - before.handled}
		if got.entered < want || got.handled < want {
			return fmt.Errorf("%+v, want %d", got, want)
		}
		return nil
	})
	if got != (puntCount{want, want}) {
		t.Errorf("punts: the switch has %d, puntdns %d, want %d", got.entered-1, got.handled-1, want-1)
	}
}

// testACLs holds in both modes. The guests may ask the resolvers; also is done
// while nobody may begin to talk to vm.
func testACLs(t *testing.T, n *routed, s *server, also func(*testing.T), resolvers ...string) {
	for _, tc := range []struct {
		name, verdict, says string
		options             []string
	}{
		{"drop", "drop", "timed out", nil},
		// That takes a packet-in to ovn-controller, beside ours.
		{"reject", "reject", "connection refused", nil},
		{"drop after load balancing", "drop", "timed out", []string{"--apply-after-lb"}},
	} {
		t.Run("ACL "+tc.name, func(t *testing.T) {
			n.NBCTL(append(tc.options, "acl-add", "red", "from-lport", "2000", `inport == "red-vm" && udp.dst == 53`, tc.verdict)...)
			n.Settle()
			n.punts(t, s, 0, func() {
				for _, r := range resolvers {
					if got := n.vm.DigProgram("+time=1", "@"+r, "db.internal"); got.Err == nil || !strings.Contains(got.Out, tc.says) {
						t.Errorf("%s: %s, want %s\n%s", r, got, tc.says, got.Out)
					}
				}
			})
			n.NBCTL("acl-del", "red", "from-lport", "2000", `inport == "red-vm" && udp.dst == 53`)
			n.Settle()
			n.punts(t, s, len(resolvers), func() {
				for _, r := range resolvers {
					expect(t, n.vm, fromPuntdns, "@"+r, "db.internal")
				}
			})
		})
	}
	t.Run("ACL allow-related", func(t *testing.T) {
		in, out := datagrams(t, n.vm, "10.0.0.11:9001"), datagrams(t, n.peer, "10.0.0.12:7001")
		out.send(t, "before", "10.0.0.11:9001")
		in.want(t, "before", "10.0.0.12:7001")

		// Nobody may begin to talk to vm, but who is asked may answer.
		deny := []string{"red", "to-lport", "2000", `outport == "red-vm" && ip`}
		n.NBCTL(append(append([]string{"acl-add"}, deny...), "drop")...)
		n.Settle()
		// Other ports, as conntrack knows those.
		in, out = datagrams(t, n.vm, "10.0.0.11:9002"), datagrams(t, n.peer, "10.0.0.12:7002")
		datagrams(t, n.peer, "10.0.0.12:7003").send(t, "unasked", "10.0.0.11:9002")
		in.send(t, "question", "10.0.0.12:7002")
		out.want(t, "question", "10.0.0.11:9002")
		out.send(t, "answer", "10.0.0.11:9002")
		in.want(t, "answer", "10.0.0.12:7002")
		n.punts(t, s, len(resolvers), func() {
			for _, r := range resolvers {
				expect(t, n.vm, fromPuntdns, "@"+r, "db.internal")
			}
		})
		also(t)
		n.NBCTL(append([]string{"acl-del"}, deny...)...)
		n.Settle()
	})
}

// datagramBox sends and receives datagrams in a guest.
type datagramBox struct{ net.PacketConn }

func datagrams(t *testing.T, g *lab.Guest, addr string) datagramBox {
	t.Helper()
	conn, err := g.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return datagramBox{conn}
}

func (b datagramBox) send(t *testing.T, text, to string) {
	t.Helper()
	if _, err := b.WriteTo([]byte(text), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		t.Fatal(err)
	}
}

// want waits for the next datagram.
func (b datagramBox) want(t *testing.T, text, from string) {
	t.Helper()
	if err := b.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1500)
	n, addr, err := b.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if string(buf[:n]) != text || addr.String() != from {
		t.Errorf("%q from %s, want %q from %s", buf[:n], addr, text, from)
	}
}

func TestPipelineService(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile("", "", ""))

	t.Run("answered", func(t *testing.T) {
		n.punts(t, s, 4, func() {
			for _, r := range []string{resolver4, resolver6} {
				expect(t, n.vm, fromPuntdns, "@"+r, "db.internal")
				expect(t, n.far, "NOERROR 30 10.0.1.9", "@"+r, "db.internal")
			}
		})
	})
	t.Run("other destinations", func(t *testing.T) {
		n.peer.ServeDNS("10.0.0.12:53", serverRecords...)
		n.peer.ServeDNS("[fd00:10::12]:53", serverRecords...)
		n.punts(t, s, 0, func() {
			expect(t, n.vm, n.onward(n.vm, fromServer), "@10.0.0.12", "db.internal")
			expect(t, n.vm, n.onward(n.vm, fromServer), "@fd00:10::12", "db.internal")
			expect(t, n.far, n.onward(n.far, fromServer), "@10.0.0.12", "db.internal")
		})
	})
	t.Run("other ports", func(t *testing.T) { testOtherPorts(t, n, s) })
	t.Run("localport", func(t *testing.T) {
		for _, g := range []*lab.Guest{n.guest("red-local", 13, "type=localport"), n.guest("green-local", 23, "type=localport")} {
			n.punts(t, s, 0, func() {
				for _, r := range []string{resolver4, resolver6} {
					expect(t, g, n.onward(g, "no reply"), "+time=1", "@"+r, "db.internal")
				}
			})
			if flows := n.dumpOurs(n.portMatch(g.Port)); len(flows) != 0 {
				t.Errorf("%s has entry flows: %q", g.Name, flows)
			}
		}
	})
	testACLs(t, n, s, func(t *testing.T) {
		expect(t, n.vm, n.onward(n.vm, fromServer), "@10.0.0.12", "db.internal")
		expect(t, n.vm, n.onward(n.vm, fromServer), "@fd00:10::12", "db.internal")
	}, resolver4, resolver6)
}

func TestPipelineRecompute(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile(rareBeats, "", ""))
	n.Sync()
	ours, theirs := n.dumpOurs(), n.countOVN()
	for range 3 {
		n.Node.AppCtl("ovn-controller", "inc-engine/recompute")
		n.Sync()
		if got := n.dumpOurs(); !slices.Equal(got, ours) {
			t.Errorf("our flows were %q, and are %q", ours, got)
		}
		if got := n.countOVN(); got != theirs {
			t.Errorf("OVN has %d flows, had %d", got, theirs)
		}
		expect(t, n.vm, fromPuntdns, "@"+resolver4, "db.internal")
		expect(t, n.vm, fromPuntdns, "@"+resolver6, "db.internal")
	}
	if got := s.metric("coredns_ofpunt_flow_installs_total", "reason", "lost"); got != 0 {
		t.Errorf("%v flows were lost on the way", got)
	}
	for i := range 3 {
		g := n.guest("red-new", 31+i)
		match := n.portMatch(g.Port)
		n.comes(t, "a new guest gets its entry flows", func() bool { return len(n.dumpOurs(match)) == guestFlows })
		expect(t, g, fromPuntdns, "@"+resolver4, "db.internal")
		expect(t, g, fromPuntdns, "@"+resolver6, "db.internal")
		expect(t, n.vm, "NXDOMAIN", "@"+resolver4, "red-new")

		n.Node.VSCTL("remove", "Interface", g.NodePort, "external_ids", "iface-id")
		n.Eventually("the port is unbound", func() error { return n.bound(g.Port, false) })
		n.comes(t, "a guest that has left loses its entry flows", func() bool { return len(n.dumpOurs(match)) == 0 })
		n.Node.VSCTL("set", "Interface", g.NodePort, "external_ids:iface-id="+g.Port)
		n.Eventually("the port is bound", func() error { return n.bound(g.Port, true) })
		n.comes(t, "a guest that is back gets its entry flows", func() bool { return len(n.dumpOurs(match)) == guestFlows })

		g.Remove()
		n.Eventually("the port is gone", func() error {
			if n.SBCTL("--bare", "--columns=_uuid", "find", "Port_Binding", "logical_port="+g.Port) != "" {
				return errors.New("it is still there")
			}
			return nil
		})
		n.comes(t, "a guest that is deleted loses its entry flows", func() bool { return len(n.dumpOurs(match)) == 0 })
	}
	n.Sync()
	if got := n.dumpOurs(); !slices.Equal(got, ours) {
		t.Errorf("our flows were %q, and are %q", ours, got)
	}
	if got := n.countOVN(); got != theirs {
		t.Errorf("OVN has %d flows, had %d", got, theirs)
	}
}

// bound checks whether a chassis has the port.
func (n *routed) bound(port string, want bool) error {
	n.t.Helper()
	if got := n.SBCTL("--bare", "--columns=chassis", "find", "Port_Binding", "logical_port="+port); (got != "") != want {
		return fmt.Errorf("the chassis is %q", got)
	}
	return nil
}

// comes waits until something is done, and logs how long that took.
func (n *routed) comes(t *testing.T, what string, done func() bool) {
	t.Helper()
	began := time.Now()
	n.Eventually(what, func() error {
		if !done() {
			return errors.New("not yet")
		}
		return nil
	})
	t.Logf("%s: %s", what, time.Since(began))
}

// leased checks that the switch removes the punt by itself once shortLease has passed without a renewal.
func (n *routed) leased(t *testing.T) {
	t.Helper()
	timeout := fmt.Sprintf("hard_timeout=%.f,", shortLease.Seconds())
	if flows := n.dumpOurs("table=200"); !slices.ContainsFunc(flows, func(f string) bool { return strings.Contains(f, timeout) }) {
		t.Errorf("no flow of table 200 has %s: %q", timeout, flows)
	}
}

func TestPipelineStop(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := serve(t, n.Lab, pipelineCorefile(mode.properties, mode.fall, mode.behind))
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver6, "db.internal")
			if len(n.dumpOurs()) == 0 {
				t.Error("no flow has our cookie")
			}
			if err := s.Stop(); err != nil {
				t.Errorf("SIGTERM: %v\n%s", err, s.Log())
			}
			if got := n.dumpOurs(); len(got) != 0 {
				t.Errorf("flows are left: %q", got)
			}
			expect(t, n.vm, fromOVN, "+noedns", "@"+resolver4, "db.internal")
			expect(t, n.vm, fromOVN, "+noedns", "@"+resolver6, "db.internal")
		})
	}
}

func TestPipelineLease(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	n.peer.ServeDNS("10.0.0.12:53", serverRecords...)
	gone := n.guest("red-gone", 14)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			text := pipelineCorefile("lease $LEASE\n"+mode.properties, mode.fall, mode.behind)
			s := serve(t, n.Lab, text)
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
			cookies := n.cookies()
			if len(cookies) != 1 {
				t.Fatalf("cookies: %q", cookies)
			}

			// It lives on beyond its lease, as it is renewed.
			beats := s.metric("coredns_ofpunt_probe_duration_seconds")
			n.Eventually("six beats", func() error {
				if got := s.metric("coredns_ofpunt_probe_duration_seconds") - beats; got < 6 {
					return fmt.Errorf("%v beats", got)
				}
				return nil
			})
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")

			n.leased(t)
			killed := time.Now()
			if err := s.Kill(); err == nil {
				t.Error("it ended in order")
			}
			n.Eventually("OVN's own DNS answers", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_, _, err := n.vm.Exchange(ctx, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA), resolver4+":53")
				return err
			})
			t.Logf("OVN's own DNS answers after %s", time.Since(killed))
			expect(t, n.vm, fromOVN, "+noedns", "@"+resolver4, "db.internal")
			expect(t, n.vm, fromOVN, "+noedns", "@"+resolver6, "db.internal")
			expect(t, n.vm, fromServer, "+noedns", "@10.0.0.12", "www.example.org")
			for _, f := range n.dumpOurs("table=200") {
				if strings.Contains(f, "hard_timeout") {
					t.Errorf("the punt is still there: %q", f)
				}
			}

			// The one that comes after finds a guest less.
			match := n.portMatch(gone.Port)
			if len(n.dumpOurs(match)) == 0 {
				t.Error("a dead process has no flows left, the test shows nothing")
			}
			gone.Remove()
			n.Sync()
			for _, when := range []string{"after the lease", "within the lease"} {
				s = serve(t, n.Lab, text)
				expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
				expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver6, "db.internal")
				now := n.cookies()
				if len(now) != 1 || slices.Equal(now, cookies) {
					t.Errorf("%s: cookies %q after %q, want a new one alone", when, now, cookies)
				}
				cookies = now
				if got := n.dumpOurs(match); len(got) != 0 {
					t.Errorf("%s: flows of a guest that has gone: %q", when, got)
				}
				if err := s.Kill(); err == nil {
					t.Error("it ended in order")
				}
			}
			gone = n.guest("red-gone", 14)
			s = serve(t, n.Lab, text)
			if err := s.Stop(); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
			if got := n.dumpOurs(); len(got) != 0 {
				t.Errorf("flows are left: %q", got)
			}
		})
	}
}

func TestPipelineRestarts(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	s := serve(t, n.Lab, pipelineCorefile(rareBeats, "", ""))
	expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
	ours := n.dumpOurs()
	// lost flows are those of a switch that has been there all the time.
	lost := func(t *testing.T, before mendings) {
		t.Helper()
		s.mended(t, before, len(ours), len(ours))
		s.toldTimes(t, before.connects, logSwitchUp, "")
		s.toldTimes(t, before.ended, logSwitchEnded)
	}
	// A switch that has begun anew has none that somebody could have taken.
	begun := func(t *testing.T, before mendings) {
		t.Helper()
		s.mended(t, before, len(ours), 0)
		s.toldTimes(t, before.connects+1, logSwitchUp, "")
		s.toldTimes(t, before.ended+1, logSwitchEnded)
	}
	// An ovn-controller that starts deletes all flows of the bridge, ours among them,
	// and then installs its own; those of the one before do not show that it can serve.
	wiped := func(f func()) {
		const mark = "table=250,priority=1"
		n.Node.OFCTL("add-flow", lab.Bridge, mark+",actions=drop")
		f()
		n.Eventually("ovn-controller has begun anew", func() error {
			if flows := n.Node.OFCTL("dump-flows", lab.Bridge, "table=250"); strings.Contains(flows, "table=250") {
				return errors.New(flows)
			}
			return nil
		})
	}
	for _, tc := range []struct {
		name string
		f    func()
		says func(*testing.T, mendings)
	}{
		{"ovn-controller restarted", func() { wiped(func() { n.Node.Restart("ovn-controller") }) }, lost},
		{"ovn-controller killed", func() { wiped(func() { n.Node.Kill("ovn-controller"); n.Node.Revive("ovn-controller") }) }, lost},
		{"ovs-vswitchd restarted", func() { n.Node.Restart("ovs-vswitchd") }, begun},
		{"ovs-vswitchd killed", func() { n.Node.Kill("ovs-vswitchd"); n.Node.Revive("ovs-vswitchd") }, begun},
		// The ovn-controller that is ended may have begun anew with the switch.
		{"all of it", func() {
			n.Node.Restart("ovsdb-server")
			n.Node.Restart("ovs-vswitchd")
			n.Node.Restart("ovn-controller")
			n.Sync()
		}, func(t *testing.T, before mendings) {
			if got := s.mendings().installed - before.installed; got < float64(len(ours)) {
				t.Errorf("%v flows were installed again, want all %d", got, len(ours))
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := s.mendings()
			tc.f()
			n.able()
			n.untilAnswer(t, fromPuntdns)
			n.Sync()
			n.Node.Revalidate()
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
			expect(t, n.vm, fromPuntdns, "+noedns", "@"+resolver6, "db.internal")
			n.sameFlows(ours)
			s.reaches(float64(len(ours)), "coredns_ofpunt_flows", "bridge", lab.Bridge)
			tc.says(t, before)
			s.ready(200)
			n.punts(t, s, 1, func() { expect(t, n.far, "NOERROR 30 10.0.1.9", "@"+resolver4, "db.internal") })
			g := n.guest("red-new", 31)
			expectSoon(t, n.Lab, g, fromPuntdns, "+noedns", "@"+resolver4, "db.internal")
			g.Remove()
			n.sameFlows(ours)
		})
	}
}
