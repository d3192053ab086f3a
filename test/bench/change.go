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

// change measures how long a commit in Northbound takes to be in the answers.
func (b *bench) change() {
	n := b.newNetwork()
	row := n.AddDNS(map[string]string{"changing.example.internal": "192.0.2.1"}, "red")
	n.Sync()
	nb := b.open(n.NB, "OVN_Northbound")
	defer nb.close()
	t := b.report.table(tChange)
	peers := b.peers(n)
	for round := range b.rounds {
		for _, p := range peers {
			if p.name != pPuntdns && p.name != pNative {
				continue
			}
			b.with(p, func(*lab.Process) {
				var all []float64
				for i := range b.changes {
					address := fmt.Sprintf("192.0.%d.%d", 2+round, 10+i)
					nb.transact(map[string]any{
						"op": "update", "table": "DNS", "where": []any{[]any{"_uuid", "==", []string{"uuid", row}}},
						"row": map[string]any{"records": ovsMap([2]string{"changing.example.internal", address})},
					})
					all = append(all, milliseconds(b.follows(n.vm, "changing.example.internal.", address)))
				}
				t.put(p.name, median(all))
				b.say("a commit in Northbound, %s: answered after %.1f ms", p.name, median(all))
			})
		}
	}
}

// follows asks without pause until the answer is the address, and returns how long
// that took.
func (b *bench) follows(g *lab.Guest, name, address string) time.Duration {
	began := time.Now()
	conn, err := g.Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	co := &dns.Conn{Conn: conn}
	defer co.Close()
	for {
		if time.Since(began) > time.Minute {
			b.t.Fatalf("%s is not %s after a minute", name, address)
		}
		if err := co.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			b.t.Fatalf("%v", err)
		}
		q := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if err := co.WriteMsg(q); err != nil {
			b.t.Fatalf("%v", err)
		}
		r, err := co.ReadMsg()
		for err == nil && r.Id != q.Id {
			r, err = co.ReadMsg()
		}
		if err == nil && len(r.Answer) == 1 {
			if a, ok := r.Answer[0].(*dns.A); ok && a.A.String() == address {
				return time.Since(began)
			}
		}
	}
}
