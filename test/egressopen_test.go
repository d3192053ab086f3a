// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// outsideNet has two guests whose port group lets them send nowhere but to open destinations, and servers outside at 192.0.2.1
// to 192.0.2.200 and 2001:db8::1 to 2001:db8::20. The name nK.example leads to the address K.
type outsideNet struct {
	*lab.Lab
	t                 *testing.T
	vm, peer, outside *lab.Guest
	upstream          string
}

const outsideAddresses, outsideAddresses6 = 200, 20

func newOutside(t *testing.T) *outsideNet {
	t.Helper()
	return newOutsideOf(t, 1)
}

// newOutsideOf is newOutside with some nodes. All guests are on the first one.
func newOutsideOf(t *testing.T, nodes int) *outsideNet {
	t.Helper()
	l := lab.New(t, lab.Options{Nodes: nodes})
	l.AddSwitch("red")
	l.AddSwitch("out")
	l.AddRouter("r",
		lab.RouterPort{Switch: "red", MAC: redGateway, Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}},
		lab.RouterPort{Switch: "out", MAC: greenGateway, Networks: []string{"192.0.2.254/24", "2001:db8::fe/64"}})
	n := &outsideNet{Lab: l, t: t}
	guest := func(name string, number int) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: name, Switch: "red", MAC: fmt.Sprintf("02:00:00:00:00:%02d", number),
			Addrs:    lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", number), fmt.Sprintf("fd00:10::%d/64", number)),
			Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"), PortSecurity: true,
		})
	}
	n.vm, n.peer = guest("red-vm", 11), guest("red-peer", 12)
	var addresses []string
	for i := range outsideAddresses {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d/24", i+1))
	}
	for i := range outsideAddresses6 {
		addresses = append(addresses, fmt.Sprintf("2001:db8::%x/64", i+1))
	}
	n.outside = l.Node.AddGuest(lab.Guest{
		Name: "outside", Switch: "out", MAC: "02:00:00:00:00:31", Addrs: lab.Prefixes(addresses...),
		Gateway4: lab.Addr("192.0.2.254"), Gateway6: lab.Addr("2001:db8::fe"),
	})
	for _, port := range []string{"443", "80"} {
		n.echo(port)
	}
	up := l.Upstream()
	up.SetHandler(dns.HandlerFunc(answerOutside))
	n.upstream = up.Addr
	for _, node := range l.Nodes[1:] {
		node.ServeDNS(up.Addr).SetHandler(dns.HandlerFunc(answerOutside))
	}
	l.NBCTL("pg-add", "closed", "red-vm", "red-peer")
	for _, family := range []string{"ip4", "ip6"} {
		l.NBCTL("--type=port-group", "acl-add", "closed", "from-lport", "32766", fmt.Sprintf("inport == @closed && %s && pkt.mark[31] == 0", family), "drop")
	}
	l.NBCTL("--type=port-group", "acl-add", "closed", "from-lport", "32767",
		fmt.Sprintf("inport == @closed && (ip4.dst == %s || ip6.dst == %s) && (udp.dst == 53 || tcp.dst == 53)", resolver4, resolver6), "allow-related")
	l.Sync()
	return n
}

// manyOutside has addresses for the names mK.example: public ones, or egress would not open them.
const manyOutside = "60.0.0.0/8"

func manyAddress(k int) net.IP { return net.IPv4(60, byte(k>>16), byte(k>>8), byte(k)) }

// manyAddresses gives the server outside all addresses of manyOutside.
func (n *outsideNet) manyAddresses() {
	n.t.Helper()
	if _, err := n.outside.Exec(within(n.t, wait), "ip", "route", "add", "local", manyOutside, "dev", "lo"); err != nil {
		n.t.Fatal(err)
	}
	n.NBCTL("lr-route-add", "r", manyOutside, "192.0.2.1")
	n.Sync()
}

// answerOutside answers nK.example and nK.test with the address K, aK.example with the alias nK.test, and mK.example with one of
// manyOutside, for a second.
func answerOutside(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	q := r.Question[0]
	label, _, _ := strings.Cut(strings.ToLower(q.Name), ".")
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 1}
	var set byte
	var k int
	if _, err := fmt.Sscanf(label, "%c%d", &set, &k); err == nil {
		switch {
		case set == 'n' && q.Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: header, A: net.IPv4(192, 0, 2, byte(k))}}
		case set == 'n' && q.Qtype == dns.TypeAAAA:
			m.Answer = []dns.RR{&dns.AAAA{Hdr: header, AAAA: net.ParseIP(fmt.Sprintf("2001:db8::%x", k))}}
		case set == 'a' && q.Qtype == dns.TypeA:
			alias := header
			alias.Rrtype, header.Name = dns.TypeCNAME, fmt.Sprintf("n%d.test.", k)
			m.Answer = []dns.RR{&dns.CNAME{Hdr: alias, Target: header.Name}, &dns.A{Hdr: header, A: net.IPv4(192, 0, 2, byte(k))}}
		case set == 'm' && q.Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: header, A: manyAddress(k)}}
		}
	}
	_ = w.WriteMsg(m) // a client that has gone is no failure
}

// echo serves a TCP port of all addresses outside: it returns what it gets.
func (n *outsideNet) echo(port string) {
	n.t.Helper()
	listener, err := n.outside.Listen("tcp", net.JoinHostPort("::", port))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.(*net.TCPConn).SetKeepAlive(false) // conntrack takes a segment of the server for a connection that the server opens
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func (n *outsideNet) corefile(policy string) string {
	return n.corefileOf("", "policy ofpunt/switch red {\n"+policy+"\n}")
}

// corefileOf returns a Corefile by more properties of ovnhosts, and the properties of egress.
func (n *outsideNet) corefileOf(ovnhosts, egress string) string {
	return corefile(n.Lab, n.corefileText(ovnhosts, egress))
}

// corefileText is corefileOf for any node, as launch takes it.
func (n *outsideNet) corefileText(ovnhosts, egress string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        rate off
        control $CONTROL
    }
    ready ` + readyAddr + `
    prometheus ` + metricsAddr + `
    errors
    ovnhosts {
        southbound $SB
        ` + ovnhosts + `
        fallthrough
    }
    egress {
        ` + egress + `
    }
    forward . ` + n.upstream + `
}`
}

// resolve asks for a name, and returns the address of the answer.
func (n *outsideNet) resolve(g *lab.Guest, name string, qtype uint16) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	r, err := exchange(ctx, g, resolver4, name, qtype)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			a, _ := netip.AddrFromSlice(rr.A.To4())
			return a, nil
		case *dns.AAAA:
			a, _ := netip.AddrFromSlice(rr.AAAA)
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address: %s", name, dns.RcodeToString[r.Rcode])
}

// connect connects, and returns how many times the kernel has sent the first packet again.
func connect(ctx context.Context, g *lab.Guest, to string) (c net.Conn, again int, err error) {
	c, err = g.Dial(ctx, "tcp", to)
	if err != nil {
		return nil, 0, err
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return c, 0, err
	}
	var info *unix.TCPInfo
	controlErr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) })
	if err = errors.Join(controlErr, err); err != nil {
		return c, 0, err
	}
	return c, int(info.Total_retrans), nil
}

// closedFor is how long a connection is tried that the switch is to refuse.
const closedFor = 300 * time.Millisecond

// isOpen reports whether a guest can connect.
func isOpen(t *testing.T, g *lab.Guest, to string) bool {
	t.Helper()
	c, _, err := connect(within(t, closedFor), g, to)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// echoes reports whether a connection returns what it gets.
func echoes(c net.Conn, within time.Duration) bool {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// A guest whose port group is closed reaches what it has resolved, from the first packet on, and nothing else.
func TestEgressOpens(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	n.AddDNS(map[string]string{"n9.example": "192.0.2.9"}, "red") // by the tenant
	n.Sync()
	// A server outside has it too.
	if _, err := n.Node.Exec(within(t, wait), "ip", "addr", "add", "192.0.2.8/32", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	s := serve(t, n.Lab, n.corefile("allow *.example:443/tcp n7.example"))
	web := netip.MustParseAddr("192.0.2.1")
	at := func(a netip.Addr, port string) string { return net.JoinHostPort(a.String(), port) }
	if isOpen(t, n.vm, at(web, "443")) {
		t.Error("open before it was resolved")
	}
	for _, tt := range []struct {
		name  string
		qtype uint16
	}{{"n1.example.", dns.TypeA}, {"n2.example.", dns.TypeA}, {"n1.example.", dns.TypeAAAA}} {
		a, err := n.resolve(n.vm, tt.name, tt.qtype)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := connect(within(t, wait), n.vm, at(a, "443"))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		defer c.Close()
		if !echoes(c, wait) {
			t.Errorf("%s: no echo", tt.name)
		}
	}
	for _, name := range []string{"n7.example.", "n8.example.", "n9.example."} {
		if _, err := n.resolve(n.vm, name, dns.TypeA); err != nil {
			t.Fatal(err)
		}
	}
	var listed api.Egress
	s.operator().ask(&listed, "egress", "list", "red-vm")
	var open []string
	for _, o := range listed.Openings {
		open = append(open, fmt.Sprint(o.Port, " ", o.Address, " ", o.TransportPort, " ", o.Names, " ", o.Packets > 0))
	}
	if want := []string{"red-vm 192.0.2.1 443 [n1.example.] true", "red-vm 192.0.2.2 443 [n2.example.] true", "red-vm 192.0.2.7 0 [n7.example.] false", "red-vm 2001:db8::1 443 [n1.example.] true"}; !slices.Equal(open, want) {
		t.Errorf("puntctl egress list: %q, want %q", open, want)
	}
	s.reaches(4, "coredns_ofpunt_open_destinations")
	var e api.Explanation
	s.operator().ask(&e, "explain", "red-vm", "n1.example")
	flows := map[string]int{}
	for _, f := range e.Flows {
		flows[f.For]++
	}
	// Seven flows punt queries. One clears a mark of the guest, two make destinations exact, two drop fragments. Openings
	// are left out.
	if flows["query"] != 7 || flows["egress"] != 5 {
		t.Errorf("puntctl explain has these flows: %v", flows)
	}
	for _, tt := range []struct {
		what  string
		guest *lab.Guest
		to    string
		want  bool
	}{
		{"the port of the entry", n.vm, "192.0.2.1:443", true},
		{"another port", n.vm, "192.0.2.1:80", false},
		{"another address", n.vm, "192.0.2.3:443", false},
		{"any port of a name with an entry for all", n.vm, "192.0.2.7:80", true},
		{"a neighbour that has not asked", n.peer, "192.0.2.1:443", false},
		{"IPv6", n.vm, "[2001:db8::1]:443", true},
		{"an address of the node", n.vm, "192.0.2.8:443", false},
		{"an address of a tenant's DNS row", n.vm, "192.0.2.9:443", false},
		{"another address over IPv6", n.vm, "[2001:db8::2]:443", false},
	} {
		if got := isOpen(t, tt.guest, tt.to); got != tt.want {
			t.Errorf("%s: open: %v, want %v", tt.what, got, tt.want)
		}
	}
	s.endWell()
}

// The first packets to addresses that answers have opened are not lost, beside refused packets to neighbours of these addresses.
func TestEgressFirstPacket(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	s := serve(t, n.Lab, n.corefile("allow *.example"))
	var lost []string
	addresses := 0
	for k := 2; k < outsideAddresses-1; k += 4 {
		addresses++
		// An entry of the cache for the refused address would be for a prefix that k has, too.
		if c, _, err := connect(within(t, 20*time.Millisecond), n.vm, fmt.Sprintf("192.0.2.%d:443", k+1)); err == nil {
			c.Close()
			t.Errorf("connected to %d, which is not resolved", k+1)
		}
		a, err := n.resolve(n.vm, fmt.Sprintf("n%d.example.", k), dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		c, again, err := connect(within(t, wait), n.vm, net.JoinHostPort(a.String(), "443"))
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		c.Close()
		if again > 0 {
			lost = append(lost, a.String())
		}
	}
	// A busy machine may take a second for a packet. Without the flow that looks at the whole address a quarter is lost.
	if len(lost) > 2 {
		t.Errorf("the first packets to %d of %d addresses were lost: %s", len(lost), addresses, lost)
	}
	s.endWell()
}

// A connection goes on while puntdns is gone or is replaced, and the next process knows its name. A name that is withdrawn cuts it.
func TestEgressEnds(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	s := serve(t, n.Lab, n.corefile("allow n1.example n2.example"))
	var conns []net.Conn
	for _, name := range []string{"n1.example.", "n2.example."} {
		a, err := n.resolve(n.vm, name, dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := connect(within(t, wait), n.vm, net.JoinHostPort(a.String(), "443"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	echo := func(what string, want ...bool) {
		t.Helper()
		// The switch closes a moment after the reload, and its cache a moment later.
		n.Eventually(what, func() error {
			var all sync.WaitGroup
			got := make([]bool, len(conns))
			for i, c := range conns {
				bound := wait
				if !want[i] {
					bound = closedFor
				}
				all.Go(func() { got[i] = echoes(c, bound) })
			}
			all.Wait()
			if !slices.Equal(got, want) {
				return fmt.Errorf("echoes %v, want %v", got, want)
			}
			return nil
		})
	}
	echo("served", true, true)
	if err := s.Kill(); err == nil {
		t.Error("puntdns was not killed")
	}
	echo("killed", true, true)
	if isOpen(t, n.vm, "192.0.2.3:443") {
		t.Error("without puntdns something new is open")
	}
	s = serve(t, n.Lab, n.corefile("allow n1.example n2.example"))
	echo("started again", true, true)
	s.endWell()
	echo("ended", true, true)
	s = serve(t, n.Lab, n.corefile("allow n2.example"))
	echo("started with a name less", false, true)
	s.reload(n.corefile("allow n3.example"))
	echo("reloaded without the other name", false, false)
	s.endWell()
}

// A client that keeps an address for ever reaches it while a connection uses it, longer than the answer asks for. After the idle
// time the address is closed until the client resolves the name again.
func TestEgressCachedByClient(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	const idle = 10 // seconds: the floor and grace. A busy machine sends a packet in less.
	s := serve(t, n.Lab, strings.Replace(n.corefile("allow n1.example"), "egress {", "egress {\n        floor 1s\n        grace 9s", 1))
	resolve := func() {
		t.Helper()
		if _, err := n.resolve(n.vm, "n1.example.", dns.TypeA); err != nil { // its TTL is 1 s
			t.Fatal(err)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		c, _, err := connect(within(t, wait), n.vm, "192.0.2.1:443")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	resolve()
	c := dial()
	n.Eventually("the opening is older than its idle time", func() error {
		if !echoes(c, wait) {
			t.Fatal("no echo")
		}
		var listed api.Egress
		s.operator().ask(&listed, "egress", "list", "red-vm")
		if len(listed.Openings) != 1 || listed.Openings[0].OpenedSecondsAgo <= idle {
			return fmt.Errorf("%+v", listed.Openings)
		}
		return nil
	})
	dial().Close() // to the address that the client has kept
	c.Close()
	s.reaches(0, "coredns_ofpunt_open_destinations")
	n.Eventually("the address is closed", func() error {
		if isOpen(t, n.vm, "192.0.2.1:443") {
			return errors.New("open")
		}
		return nil
	})
	resolve()
	dial()
	s.endWell()
}

// Open addresses and connections outlive a restart of ovn-controller or of Open vSwitch, and the guest need not ask again.
func TestEgressRestarts(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	s := serve(t, n.Lab, n.corefile("allow n1.example n2.example"))
	resolve := func(name string) {
		t.Helper()
		n.Eventually(name+" resolves", func() error {
			_, err := exchange(within(t, time.Second), n.vm, resolver4, name, dns.TypeA) // a query may be lost meanwhile
			return err
		})
	}
	const web = "192.0.2.1:443"
	resolve("n1.example.")
	c, _, err := connect(within(t, wait), n.vm, web)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		what    string
		restart func()
		echoes  bool
	}{
		{"ovn-controller", func() { n.Node.Restart("ovn-controller") }, true},
		{"ovs-ctl", n.Node.RestartAsOVSCtl, true},
		// Connection tracking starts empty. The connection may go on as one that the server has opened, so it is not asked.
		{"ovs-vswitchd", func() { n.Node.Restart("ovs-vswitchd") }, false},
	} {
		tt.restart()
		resolve("n2.example.") // puntdns serves again
		if tt.echoes && !echoes(c, wait) {
			t.Errorf("%s: no echo", tt.what)
		}
		if !isOpen(t, n.vm, web) || isOpen(t, n.vm, "192.0.2.3:443") {
			t.Errorf("%s: what was open is closed, or more is open", tt.what)
		}
	}
	s.endWell()
}

// OVN lets messages of multicast listeners pass before any ACL, and a router may forward them: a policy of the router stops
// them, as docs/egress.md says, and no other packets.
func TestEgressListeners(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	n.NBCTL("pg-set-ports", "closed", "red-vm")
	n.Sync()
	const echoRequest, query, report, done = 128, 130, 131, 132
	outside, err := n.outside.ListenPacket("ip6:ipv6-icmp", "2001:db8::1")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	send := func(g *lab.Guest, from string, kind byte, text string) {
		t.Helper()
		conn, err := g.ListenPacket("ip6:ipv6-icmp", from)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.WriteTo(append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, text...), &net.IPAddr{IP: net.ParseIP("2001:db8::1")}); err != nil {
			t.Fatal(err)
		}
	}
	// arrive returns the types of the guest's messages that come outside before the second one of its neighbour does.
	arrive := func(text string) (kinds []byte) {
		t.Helper()
		for _, kind := range []byte{query, report, done} {
			send(n.vm, "fe80::ff:fe00:11%"+lab.Iface, kind, text)
		}
		send(n.peer, "fd00:10::12", echoRequest, text)
		last := false
		if err := outside.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 1500); ; {
			k, _, err := outside.ReadFrom(b)
			switch {
			case err != nil:
				t.Fatalf("%s: %v", text, err)
			case !bytes.Contains(b[:k], []byte(text)):
			case b[0] == echoRequest && last:
				return kinds
			case b[0] == echoRequest:
				last = true
				send(n.peer, "fd00:10::12", echoRequest, text)
			default:
				kinds = append(kinds, b[0])
			}
		}
	}
	if got := arrive("without the policy"); (len(got) == 3) != n.Release().RoutesListeners() || len(got)%3 > 0 {
		t.Errorf("without the policy %v arrive", got)
	}
	n.NBCTL("lr-policy-add", "r", "1000", "ip6.src == fe80::/10", "drop")
	n.Sync()
	if got := arrive("with the policy"); len(got) > 0 {
		t.Errorf("with the policy %v arrive", got)
	}
}
