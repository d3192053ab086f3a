// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// restarts measures for how long closed guests can't connect while a daemon is killed and starts again.
func (n *closedNetwork) restarts() {
	n.Node.OFCTL("del-flows", lab.Bridge, "table=203") // or the network is full of what answers has opened
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
			aborts := 0
			for !n.interrupted(e.row, e.restart) {
				if aborts++; aborts > mostAborts {
					n.t.Fatalf("%s: ovs-vswitchd has ended by itself %d times", e.row, aborts)
				}
				n.t.Logf("%s: ovs-vswitchd has ended by itself: measured again", e.row)
				n.Node.Revive("ovs-vswitchd")
			}
		}
	}
}

// mostAborts bounds how often a row is measured again.
const mostAborts = 3

func (n *closedNetwork) killed(daemon string) {
	n.Node.Kill(daemon)
	n.Node.Revive(daemon)
}

const (
	// attempt is how long a guest waits for an answer, and for a connection.
	attempt = 20 * time.Millisecond
	// betweenAttempts: a guest may open max_addresses in a minute, and has 28,000 ports for its connections.
	betweenAttempts = 10 * time.Millisecond
)

// interrupted has guests connect to an open address, to newly resolved addresses, and to one that nobody has resolved. It
// reports false without a result if ovs-vswitchd ends by itself: 3.1.0 may abort (conn_update_state).
func (n *closedNetwork) interrupted(row string, restart func()) bool {
	open, unresolved := n.used.Add(1), n.used.Add(1)
	first, err := n.guests[0].Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	defer first.Close()
	n.Eventually("an answer after the restart before", func() error {
		_, err := (&resolution{guest: n.guests[0], conn: first, within: 100 * time.Millisecond}).resolve(open)
		return err
	})
	conn, err := n.guests[1].Dial(context.Background(), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	defer conn.Close()
	r := &resolution{guest: n.guests[1], conn: conn, within: attempt}
	toOpen := gap{do: func() error { return reach(n.guests[0], open) }}
	toNew := gap{do: func() error {
		number := n.used.Add(1)
		if _, err := r.resolve(number); err != nil {
			return err
		}
		return reach(r.guest, number)
	}}
	toUnresolved := gap{do: func() error { return reach(n.guests[2], unresolved) }}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, g := range []*gap{&toOpen, &toNew, &toUnresolved} {
		group.Go(func() { g.measure(ctx) })
	}
	time.Sleep(n.length / 4)
	ended := n.switchEnded()
	if !ended {
		restart()
		time.Sleep(n.length)
		ended = n.switchEnded()
	}
	cancel()
	group.Wait()
	if toUnresolved.successes > 0 {
		n.t.Fatalf("%s: a guest has reached an address that nobody has resolved, %d times", row, toUnresolved.successes)
	}
	if ended {
		return false
	}
	n.put(eGapOpen, row, milliseconds(toOpen.longest))
	n.put(eGapNew, row, milliseconds(toNew.longest))
	return true
}

func (n *closedNetwork) switchEnded() bool {
	select {
	case <-n.Node.Daemon("ovs-vswitchd").Done():
		return true
	default:
		return false
	}
}

// reach connects with the address of a number.
func reach(g *lab.Guest, number uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	c, _, err := connectTo(ctx, g, number)
	if err == nil {
		c.Close()
	}
	return err
}

// gap is the longest time between two successes, or from the last success to the end.
type gap struct {
	do        func() error
	longest   time.Duration
	successes int
}

func (g *gap) measure(ctx context.Context) {
	ticker := time.NewTicker(betweenAttempts)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			g.longest = max(g.longest, time.Since(last))
			return
		case <-ticker.C:
		}
		if g.do() == nil {
			now := time.Now()
			g.longest, last = max(g.longest, now.Sub(last)), now
			g.successes++
		}
	}
}
