// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

//go:embed blocking.py
var blocking string

// upstreamDelay is how long the upstream thinks.
const upstreamDelay = 10 * time.Millisecond

// forward measures outside names on a bridge without OVN, where a forwarder in the
// manner of Neutron's can run too.
func (b *bench) forward() {
	l := lab.New(b.t, lab.Options{Plain: true})
	vm := l.Node.AddGuest(lab.Guest{
		Name: "vm", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24"), Routes: []string{resolver + " dev eth0"},
	})
	b.neighbor(vm)
	upstream := l.Upstream()
	thinks := newSlow(upstreamDelay, func(r *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 80).To4(),
		})
		return m
	})
	defer thinks.end()
	upstream.SetHandler(thinks)
	var names []string
	for i := range b.outsideNames {
		names = append(names, fmt.Sprintf("host%d.example.org", i))
	}
	file := questions(l, "names", names)
	script := l.WriteFile("blocking.py", blocking)
	host, port, err := net.SplitHostPort(upstream.Addr)
	if err != nil {
		b.t.Fatalf("%v", err)
	}

	puntdns := peer{pPuntdns, vm.Host, resolver, func() *lab.Process {
		return b.serve(l.Node.Host, "flows are in place", b.puntdns, "-conf", l.WriteFile("Corefile", fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        placement table 0 102
        rate off
    }
    errors
    prometheus 127.0.0.1:9153
    forward . %s
}
`, l.Node.OpenFlow, l.Node.OVSDB, upstream.Addr)))
	}}
	single := peer{pBlocking, vm.Host, resolver, func() *lab.Process {
		p := b.serve(l.Node.Host, "starting", "env", "UPSTREAM_HOST="+host, "UPSTREAM_PORT="+port, "/usr/bin/python3", script)
		// The first controller of a bridge has all flows flushed.
		l.Node.VSCTL("set-controller", lab.Bridge, "tcp:127.0.0.1:6653", "--", "set", "controller", lab.Bridge, "connection_mode=out-of-band")
		return b.started(p, "switch is connected")
	}}
	// What the forward plugin allows, without the switch between.
	const relayAddr = "127.0.0.1:5353"
	relay := peer{pRelay, l.Node.Host, relayAddr, func() *lab.Process {
		return b.serve(l.Node.Host, "CoreDNS-", b.coredns, "-conf", l.WriteFile("Corefile.relay", fmt.Sprintf(
			".:5353 {\n    bind 127.0.0.1\n    errors\n    prometheus 127.0.0.1:9153\n    forward . %s\n}\n", upstream.Addr)))
	}}
	// What so many outstanding queries allow at all.
	direct := peer{name: pUpstream, asker: l.Node.Host, server: upstream.Addr}
	for _, load := range []struct {
		outstanding int
		table       string
	}{{50, tForward50}, {500, tForward500}} {
		t := b.report.table(load.table)
		for range b.rounds {
			for _, p := range []peer{puntdns, single, relay, direct} {
				b.with(p, func(*lab.Process) {
					r := b.dnsperf(p.asker, p.server, file, load.outstanding, 0)
					t.put(p.name, r.perSecond)
					b.say("outside names, %d outstanding, %s: %.0f queries/s, %.0f lost", load.outstanding, p.name, r.perSecond, r.lost)
				})
				if p.name == single.name {
					l.Node.VSCTL("del-controller", lab.Bridge)
				}
			}
		}
	}
}

// neighbor tells a guest the resolver's hardware address: without puntdns nobody
// answers for it, and who has asked in vain waits a second.
func (b *bench) neighbor(g *lab.Guest) {
	if _, err := g.Exec(context.Background(), "ip", "neigh", "replace", resolver, "lladdr", "02:00:64:6e:73:35", "dev", lab.Iface); err != nil {
		b.t.Fatalf("%v", err)
	}
}
