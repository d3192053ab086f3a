// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// The established connections of a guest that arrives by live migration go on, for as long as it uses them. New ones need a name.
func TestEgressMigration(t *testing.T) {
	t.Parallel()
	n := newOutsideOf(t, 2)
	source, destination := n.Nodes[0], n.Nodes[1]
	for _, g := range []*lab.Guest{n.vm, n.outside} {
		n.NBCTL("set", "Logical_Switch_Port", g.Port, "options:requested-chassis="+source.Name)
	}
	for _, node := range n.Nodes {
		s := launch(t, n.Lab, node, "puntdns-"+node.Name, n.corefileText("", "policy ofpunt/switch red {\n allow *.example\n}"))
		s.ready(200)
	}
	open := func(name string, qtype uint16) net.Conn {
		t.Helper()
		a, err := n.resolve(n.vm, name, qtype)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := connect(within(t, wait), n.vm, net.JoinHostPort(a.String(), "443"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if !echoes(c, wait) {
			t.Fatalf("%s: no echo", name)
		}
		return c
	}
	used := []net.Conn{open("n1.example.", dns.TypeA), open("n1.example.", dns.TypeAAAA)}
	unused := open("n2.example.", dns.TypeA)
	if err := unused.(*net.TCPConn).SetKeepAlive(false); err != nil {
		t.Fatal(err)
	}
	goOn := func(when string) {
		t.Helper()
		for _, c := range used {
			if !echoes(c, wait) {
				t.Fatalf("%s: no echo of %s", when, c.RemoteAddr())
			}
		}
		for _, to := range []string{"192.0.2.1:443", "[2001:db8::1]:443", "192.0.2.3:443"} {
			if isOpen(t, n.vm, to) {
				t.Errorf("%s: a new connection to %s", when, to)
			}
		}
	}
	arrivals := func() int {
		return strings.Count(destination.OFCTL("dump-flows", lab.Bridge, "table=203,cookie=0x70646f0000000000/0xffffff0000000000"), "learn(")
	}

	// The chassis of the lab have no tunnels, so the servers move along.
	guests := map[*lab.Guest]*lab.Guest{}
	for _, g := range []*lab.Guest{n.outside, n.vm} {
		n.NBCTL("set", "Logical_Switch_Port", g.Port, fmt.Sprintf("options:requested-chassis=%q", source.Name+","+destination.Name))
		guests[g] = destination.AddGuest(lab.Guest{Name: g.Name + "-there", Port: g.Port, MAC: g.MAC, Addrs: g.Addrs, Gateway4: g.Gateway4, Gateway6: g.Gateway6})
	}
	n.Eventually("the switch adopts connections", func() error {
		if arrivals() != 2 {
			return fmt.Errorf("%d flows", arrivals())
		}
		return nil
	})
	for _, g := range []*lab.Guest{n.outside, n.vm} {
		takeOver(t, g, guests[g])
	}
	goOn("before the source has released the port")
	for g := range guests {
		n.NBCTL("set", "Logical_Switch_Port", g.Port, "options:requested-chassis="+destination.Name)
	}
	n.Sync()
	goOn("released")
	n.Eventually("the switch adopts no further connection", func() error {
		goOn("still adopting")
		if arrivals() > 0 {
			return fmt.Errorf("%d flows", arrivals())
		}
		return nil
	})
	goOn("arrived")
	if echoes(unused, closedFor) {
		t.Error("a connection goes on that was not used in the time of the arrival")
	}
	if _, err := n.resolve(n.vm, "n1.example.", dns.TypeA); err != nil {
		t.Fatal(err)
	}
	// The refusals of a moment ago may cost the first packet.
	c, _, err := connect(within(t, wait), n.vm, "192.0.2.1:443")
	if err != nil {
		t.Fatalf("closed, although it is resolved: %v", err)
	}
	c.Close()
}

// takeOver has a guest go on with its sockets at the interface of another one, which has the same addresses.
func takeOver(t *testing.T, g, of *lab.Guest) {
	t.Helper()
	run := func(h *lab.Guest, args string) {
		t.Helper()
		if _, err := h.Exec(within(t, wait), strings.Fields("ip "+args)...); err != nil {
			t.Fatal(err)
		}
	}
	run(g, "link set dev eth0 down")
	run(g, "link set dev eth0 name source")
	run(g, "addr flush dev source")
	run(of, "link set dev eth0 netns "+g.NetNS())
	for _, a := range g.Addrs {
		run(g, "addr add "+a.String()+" dev eth0 nodad")
	}
	run(g, "link set dev eth0 up")
	for _, gateway := range []netip.Addr{g.Gateway4, g.Gateway6} {
		run(g, "route add default via "+gateway.String())
	}
	for _, resolver := range resolvers {
		run(g, "neigh replace "+resolver+" lladdr 02:00:64:6e:73:35 dev eth0")
	}
}
