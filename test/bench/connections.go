// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// connectionsOfGuest is how many TCP connections a guest has here; by default it may have 64.
const connectionsOfGuest = 60

// connections measures the memory of TCP connections that guests leave open, each after a query.
func (b *bench) connections() {
	l := lab.New(b.t, lab.Options{})
	l.AddSwitch("red")
	l.AddRouter("r", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24"}})
	var guests []*lab.Guest
	for i := range (b.openConnections + connectionsOfGuest - 1) / connectionsOfGuest {
		guests = append(guests, l.Node.AddGuest(lab.Guest{Name: fmt.Sprintf("vm%d", i), Switch: "red", MAC: fmt.Sprintf("02:00:00:00:00:%02x", 16+i),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", 16+i)), Gateway4: lab.Addr("10.0.0.1"), Hostname: "db"}))
	}
	l.Sync()
	for range b.rounds {
		start := func() *lab.Process { return b.serveGuests(l, l.Node, len(guests)) }
		b.with(peer{name: pPuntdns, start: start}, func(p *lab.Process) {
			put := func(of int) {
				name := fmt.Sprintf("%d connections", of)
				b.report.table(tConnections).put(name, b.memory(p.Pid, "VmRSS"))
				b.say("%s, %s: %.1f", tConnections, name, b.memory(p.Pid, "VmRSS"))
			}
			put(0)
			for i := range b.openConnections {
				c, err := openConnection(guests[i/connectionsOfGuest])
				if err != nil {
					b.t.Fatalf("connection %d: %v", i, err)
				}
				defer c.Close()
			}
			put(b.openConnections)
		})
	}
}

// openConnection connects a guest with the resolver address, asks a question, and leaves the
// connection open.
func openConnection(g *lab.Guest) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lab.Scaled(30*time.Second))
	defer cancel()
	c, err := g.Dial(ctx, "tcp", "169.254.169.254:53")
	if err != nil {
		return nil, err
	}
	asked := &dns.Conn{Conn: c}
	if err := asked.WriteMsg(new(dns.Msg).SetQuestion("db.", dns.TypeA)); err != nil {
		return c, err
	}
	_, err = asked.ReadMsg()
	return c, err
}
