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
	span := soakSpan(t)
	n := newOutside(t)
	n.manyAddresses()
	s := serve(t, n.Lab, n.corefileOf("", "floor 1s\n grace 9s\n max_addresses 10000\n policy ofpunt/switch red {\n allow *.example\n}"))
	end := time.Now().Add(span)
	var all sync.WaitGroup
	all.Go(func() { n.keepConnected(end) })
	all.Go(func() { n.connectAgain(end) })
	var connected, lost atomic.Int64
	for worker := range 4 {
		guest, neighbour := n.vm, n.peer
		if worker%2 == 1 {
			guest, neighbour = neighbour, guest
		}
		all.Go(func() {
			// Numbers that no other worker uses.
			for number := 2 * worker; time.Now().Before(end) && !t.Failed(); number += 8 {
				again, err := n.openAndConnect(guest, neighbour, number)
				if err != nil {
					t.Errorf("connection %d: %v", number, err)
					return
				}
				connected.Add(1)
				if again > 0 {
					lost.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d connections, the first packet of %d was lost", connected.Load(), lost.Load())
	// A busy machine may take a second for a packet.
	if most := 1 + connected.Load()/10000; lost.Load() > most {
		t.Errorf("the first packets of %d of %d connections were lost, expected at most %d", lost.Load(), connected.Load(), most)
	}
	s.endWell()
}

// manyAddresses gives the server outside all addresses of manyOutside.
func (n *outsideNet) manyAddresses() {
	n.t.Helper()
	if _, err := n.outside.Exec(within(n.t, wait), "ip", "route", "add", "local", manyOutside, "dev", "lo"); err != nil {
		n.t.Fatal(err)
	}
	n.NBCTL("lr-route-add", "r", manyOutside, "192.0.2.1")
	n.Sync()
}

// openAndConnect has a guest connect to the address number+1 as soon as it has the answer. The switch must not take the drop of a
// packet to the address before for this one, and it must not let a neighbour through.
func (n *outsideNet) openAndConnect(guest, neighbour *lab.Guest, number int) (again int, err error) {
	at := func(number int) string { return net.JoinHostPort(manyAddress(number).String(), "443") }
	refused := func(g *lab.Guest, to string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		defer cancel()
		c, _, err := connect(ctx, g, to)
		if err != nil {
			return nil
		}
		c.Close()
		return fmt.Errorf("%s has reached %s, which it has not resolved", g.Name, to)
	}
	if err := refused(guest, at(number)); err != nil {
		return 0, err
	}
	if _, err := n.resolve(guest, fmt.Sprintf("m%d.example.", number+1), dns.TypeA); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	c, again, err := connect(ctx, guest, at(number+1))
	if err != nil {
		return 0, err
	}
	c.Close()
	return again, refused(neighbour, at(number+1))
}

// keepConnected uses one connection until a time.
func (n *outsideNet) keepConnected(end time.Time) {
	began := time.Now()
	c, err := n.connectTo("n1.example.")
	if err != nil {
		n.t.Error(err)
		return
	}
	defer c.Close()
	for tick := time.NewTicker(time.Second); time.Now().Before(end) && !n.t.Failed(); <-tick.C {
		if !echoes(c, wait) {
			n.t.Errorf("a connection ended after %s", time.Since(began))
		}
	}
}

// connectAgain connects to an address again and again that it has resolved once.
func (n *outsideNet) connectAgain(end time.Time) {
	began := time.Now()
	c, err := n.connectTo("n2.example.")
	for tick := time.NewTicker(time.Second); err == nil && time.Now().Before(end) && !n.t.Failed(); <-tick.C {
		if !echoes(c, wait) {
			err = errors.New("no echo")
			break
		}
		c.Close()
		c, _, err = connect(within(n.t, wait), n.vm, "192.0.2.2:443")
	}
	if err != nil {
		n.t.Errorf("%s after the only answer: %v", time.Since(began), err)
		return
	}
	c.Close()
}

func (n *outsideNet) connectTo(name string) (net.Conn, error) {
	a, err := n.resolve(n.vm, name, dns.TypeA)
	if err != nil {
		return nil, err
	}
	c, _, err := connect(within(n.t, wait), n.vm, net.JoinHostPort(a.String(), "443"))
	return c, err
}
