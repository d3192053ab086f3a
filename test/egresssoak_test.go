// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Guests resolve names whose answers live a second and have another address each, and connect at once: no first packet is lost.
// All the while a connection lives whose name has been resolved once, and so does a client that never asks again.
func TestEgressSoak(t *testing.T) {
	var connections, lost int64
	for end := time.Now().Add(soakSpan(t)); time.Now().Before(end); {
		r := &soakOfEgress{outsideNet: newOutside(t), end: end}
		r.manyAddresses()
		s := serve(t, r.Lab, r.corefileOf("", "floor 1s\n grace 9s\n max_addresses 10000\n policy ofpunt/switch red {\n allow *.example\n}"))
		began := time.Now()
		err := r.run()
		connections, lost = connections+r.connections.Load(), lost+r.lost.Load()
		t.Logf("%d connections in %s, the first packet of %d was lost", r.connections.Load(), time.Since(began), r.lost.Load())
		if r.crashed() && !errors.Is(err, errReached) {
			t.Log("Open vSwitch has aborted, another one begins")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s.endWell()
	}
	if connections == 0 {
		t.Error("no connection")
	}
	// A busy machine may take a second for a packet.
	if most := 1 + connections/10000; lost > most {
		t.Errorf("the first packets of %d of %d connections were lost, expected at most %d", lost, connections, most)
	}
}

// soakOfEgress is a switch under load.
type soakOfEgress struct {
	*outsideNet
	end time.Time
	// connections counts those to an address right after the answer, lost those whose SYN the kernel has sent again.
	connections, lost atomic.Int64
}

// crashed reports whether Open vSwitch has ended. Version 3.1.0 does so after a minute or two of this, see core.sh.
func (n *soakOfEgress) crashed() bool {
	select {
	case <-n.Node.Daemon("ovs-vswitchd").Done():
		return true
	default:
		return false
	}
}

// run returns the first error.
func (n *soakOfEgress) run() error {
	ctx, cancel := context.WithDeadlineCause(context.Background(), n.end, errSoaked)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	repeat := func(do func() error) {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil {
					fail(err)
				}
			}
		})
	}
	for worker := range 4 {
		guest, neighbour := n.vm, n.peer
		if worker%2 == 1 {
			guest, neighbour = neighbour, guest
		}
		number := 2 * worker
		repeat(func() error {
			number += 8 // to numbers that no other worker uses
			return n.openAndConnect(guest, neighbour, number)
		})
	}
	if kept, err := n.connectTo("n1.example."); err != nil {
		fail(err)
	} else {
		defer kept.Close()
		repeat(func() error {
			time.Sleep(time.Second)
			if !echoes(kept, wait) {
				return errors.New("the connection that lasts has no echo")
			}
			return nil
		})
	}
	if first, err := n.connectTo("n2.example."); err != nil {
		fail(err)
	} else {
		first.Close()
		repeat(func() error {
			time.Sleep(time.Second)
			c, _, err := connect(within(n.t, wait), n.vm, "192.0.2.2:443")
			if err != nil {
				return fmt.Errorf("the client that never asks again: %w", err)
			}
			return c.Close()
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errSoaked) {
		return err
	}
	return nil
}

var errSoaked = errors.New("the time is over")

// openAndConnect has a guest connect to the address number+1 as soon as it has the answer. The switch must not take the drop of a
// packet to the address before for this one, and it must not let a neighbour through.
func (n *soakOfEgress) openAndConnect(guest, neighbour *lab.Guest, number int) error {
	at := func(number int) string { return net.JoinHostPort(manyAddress(number).String(), "443") }
	refused := func(g *lab.Guest, to string, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if c, _, err := connect(ctx, g, to); err == nil {
			c.Close()
			return fmt.Errorf("%s %w: %s", g.Name, errReached, to)
		}
		return nil
	}
	const moment = 2 * time.Millisecond // the packet leaves in less
	if err := refused(guest, at(number), moment); err != nil {
		return err
	}
	if _, err := n.resolve(guest, fmt.Sprintf("m%d.example.", number+1), dns.TypeA); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	c, again, err := connect(ctx, guest, at(number+1))
	if err != nil {
		return err
	}
	c.Close()
	n.connections.Add(1)
	if again > 0 {
		n.lost.Add(1)
	}
	limit := moment
	if number%1000 < 8 {
		limit = closedFor // long enough to be answered
	}
	return refused(neighbour, at(number+1), limit)
}

var errReached = errors.New("has reached an address that it has not resolved")

func (n *soakOfEgress) connectTo(name string) (net.Conn, error) {
	a, err := n.resolve(n.vm, name, dns.TypeA)
	if err != nil {
		return nil, err
	}
	c, _, err := connect(within(n.t, wait), n.vm, net.JoinHostPort(a.String(), "443"))
	return c, err
}
