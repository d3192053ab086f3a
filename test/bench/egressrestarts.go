// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// restarts measures for how long closed guests can't connect while a daemon is killed and starts again, and whether they reach
// what they have not resolved.
func (n *closedNetwork) restarts() {
	p := n.peers()[1]
	puntdns := p.start()
	defer func() {
		if err := puntdns.Stop(); err != nil {
			n.t.Fatalf("%v\n%s", err, puntdns.Log())
		}
	}()
	for range n.rounds {
		for _, e := range []struct {
			row     string
			restart func()
		}{
			{"nothing happens", func() {}},
			{"puntdns", func() {
				_ = puntdns.Kill() // reports the signal
				puntdns = p.start()
			}},
			{"ovn-controller", func() { n.killed("ovn-controller") }},
			{"ovs-vswitchd", func() { n.killed("ovs-vswitchd") }},
			{"Open vSwitch, by ovs-ctl", n.Node.RestartAsOVSCtl},
		} {
			n.interrupted(e.row, e.restart)
		}
	}
}

func (n *closedNetwork) killed(daemon string) {
	n.Node.Kill(daemon)
	n.Node.Revive(daemon)
}

// interrupted has guests connect all the time, to an address that is open, to new ones, and to one that nobody has resolved.
func (n *closedNetwork) interrupted(row string, restart func()) {
	open := n.used.Add(1)
	n.each(n.guests[:1], time.Millisecond, func(r *resolution) (time.Duration, error) { return r.resolve(open) })
	var group sync.WaitGroup
	var done atomic.Bool
	var reached int
	// again repeats do, and measures the longest time between two successes.
	again := func(longest *time.Duration, do func() error) {
		group.Go(func() {
			for last := time.Now(); !done.Load(); {
				if do() != nil {
					continue
				}
				now := time.Now()
				*longest, last = max(*longest, now.Sub(last)), now
			}
		})
	}
	const attempt = 20 * time.Millisecond
	connect := func(g *lab.Guest, number uint32) error {
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		defer cancel()
		c, _, err := connectTo(ctx, g, number)
		if err == nil {
			c.Close()
		}
		return err
	}
	var toOpen, toNew time.Duration
	conn, err := n.guests[1].Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	defer conn.Close()
	r := &resolution{guest: n.guests[1], conn: conn, within: attempt}
	again(&toOpen, func() error { return connect(n.guests[0], open) })
	again(&toNew, func() error {
		number := n.used.Add(1)
		if _, err := r.resolve(number); err != nil {
			return err
		}
		return connect(r.guest, number)
	})
	unresolved := n.used.Add(1)
	group.Go(func() {
		for !done.Load() {
			if connect(n.guests[2], unresolved) == nil {
				reached++
			}
		}
	})
	time.Sleep(n.length / 4)
	restart()
	time.Sleep(n.length)
	done.Store(true)
	group.Wait()
	n.put(eGapOpen, row, milliseconds(toOpen))
	n.put(eGapNew, row, milliseconds(toNew))
	n.put(eReached, row, float64(reached))
}
