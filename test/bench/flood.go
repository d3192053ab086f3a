// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// victimPace is how many queries a second the guest asks that is measured, and
// floodRate what the switch lets through of the other one.
const (
	victimPace = 100
	floodRate  = "rate 1000"
)

// flood measures what a guest that asks as fast as it can takes from another one.
// Floods of ARP and of DNS that nobody punts are beside the point: this one asks for
// a name of its network. A server in a guest, which nobody punts, tells how much of
// that is the switch's and the machine's part.
func (b *bench) flood() {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	n := b.newNetwork()
	n.names = n.names[:1]
	// Open vSwitch 3.1.0 may abort in a flood through conntrack (conn_update_state).
	n.NBCTL("acl-del", "red")
	victim := n.guest("victim", "red", "10.0.0.12", "10.0.0.1", "02:00:00:00:00:12")
	server := n.guest("server", "red", "10.0.0.53", "10.0.0.1", "02:00:00:00:00:53")
	n.Sync()
	// OVN's own DNS would take port 53.
	const socket = "10.0.0.53:5353"
	b.launch(server.Host, "CoreDNS-", b.coredns, "-conf", n.WriteFile("Corefile.socket",
		fmt.Sprintf(".:5353 {\n    bind 10.0.0.53\n    hosts {\n        10.0.2.1 %s\n    }\n}\n", n.names[0])))
	mid, high, lost, share := b.report.table(tVictim), b.report.table(tVictim99), b.report.table(tVictimLost), b.report.table(tFlood)
	for range b.rounds {
		for _, kind := range []struct {
			name, rate, server string
			floods             bool
		}{
			{pQuiet, "rate off", resolver, false},
			{pLimited, floodRate, resolver, true},
			{pUnlimited, "rate off", resolver, true},
			{pSocketQuiet, "rate off", socket, false},
			{pSocketFlood, floodRate, socket, true},
			{pNativeQuiet, "", resolver, false},
			{pNativeFlood, "", resolver, true},
		} {
			text := strings.Replace(n.corefile(), "rate off", kind.rate, 1)
			p := peer{name: kind.name, asker: victim.Host, server: kind.server, start: func() *lab.Process {
				return b.serve(n.Node.Host, "flows are in place", b.puntdns, "-conf", n.WriteFile("Corefile", text))
			}}
			if kind.rate == "" {
				p.start = nil
			}
			b.with(p, func(*lab.Process) {
				b.dnsperfWarm(n, p)
				var flood *lab.Process
				if kind.floods {
					flood = b.launch(n.vm.Host, "flooding", self, "flood", resolver, n.names[0])
				}
				began := time.Now()
				ask := b.launch(p.asker, `p99`, "chrt", "--rr", "1", self, "ask", net.JoinHostPort(hostPort(p.server)), n.names[0], strconv.Itoa(b.victimQueries))
				middle, p99 := b.figure(ask.Log(), `median ([0-9.]+)`), b.figure(ask.Log(), `p99 ([0-9.]+)`)
				missed := int(b.figure(ask.Log(), `(\d+) lost`))
				perSecond := 0.0
				if kind.floods {
					length := time.Since(began)
					if err := flood.Stop(); err != nil {
						b.t.Fatalf("%v", err)
					}
					perSecond = b.figure(flood.Log(), `(\d+) queries left`) / length.Seconds()
				}
				mid.put(kind.name, middle)
				high.put(kind.name, p99)
				lost.put(kind.name, 100*float64(missed)/float64(b.victimQueries))
				if kind.floods {
					share.put(kind.name, perSecond)
				}
				b.say("%d queries/s, %s: median %.0f µs, p99 %.0f µs, %d of %d lost, beside %.0f queries/s",
					victimPace, kind.name, middle, p99, missed, b.victimQueries, perSecond)
			})
		}
	}
}

// asker is a program of its own that asks a server for a name victimPace times a second,
// and says how long answers took, in microseconds, and how many there were none of. It
// has a real-time priority by chrt(1): else what it measures is how long the kernel lets
// it wait for a processor, which is 4 ms and more beside a flood, whoever answers. Its
// arguments are the server's address and port, the name, and how often to ask.
func asker(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("ask: expected SERVER:PORT NAME NUMBER")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("ask: how often: %w", err)
	}
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	took, err := pace(conn, args[1:2], n, victimPace)
	if err != nil {
		return err
	}
	if len(took) == 0 {
		return fmt.Errorf("ask: no answer at all")
	}
	micro := func(q float64) float64 { return float64(quantile(took, q).Nanoseconds()) / 1e3 }
	fmt.Printf("%d lost, median %.1f, p99 %.1f\n", n-len(took), micro(.5), micro(.99))
	return nil
}

// flooder is a program of its own that asks a server for a name as fast as it can,
// until it is told to end, and says how many queries left. Its arguments are the
// server's address and the name.
func flooder(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("flood: expected SERVER NAME")
	}
	q, err := new(dns.Msg).SetQuestion(dns.Fqdn(args[1]), dns.TypeA).Pack()
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp", net.JoinHostPort(args[0], "53"))
	if err != nil {
		return err
	}
	defer conn.Close()
	sendUntilTerm("queries", func() error {
		_, err := conn.Write(q)
		return err
	})
	return nil
}

// sendUntilTerm calls send until SIGTERM, and prints how many of what have left. What the kernel has no room for is not sent.
func sendUntilTerm(what string, send func() error) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	fmt.Println("flooding")
	for sent := 0; ; {
		select {
		case <-end:
			fmt.Printf("%d %s left\n", sent, what)
			return
		default:
		}
		if send() == nil {
			sent++
		}
	}
}
