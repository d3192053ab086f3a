// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// node is the addresses of the node's interfaces, and the networks that they are connected to. It
// is immutable.
type node struct {
	own      map[netip.Addr]struct{}
	networks []netip.Prefix
	// isRouted reports whether the kernel would keep a packet to an address on the node. It is nil
	// in tests that have addresses alone.
	isRouted func(netip.Addr) bool
}

// has reports whether an address is the node's own: an interface has it, or the kernel's routes lead
// to the node itself, as with `ip route add local PREFIX dev lo`.
func (n *node) has(a netip.Addr) bool {
	_, ok := n.own[a]
	return ok || n.isRouted != nil && n.isRouted(a)
}

// newNode returns the node of some interfaces' addresses, as package net has them.
func newNode(addresses []net.Addr) *node {
	n := &node{own: make(map[netip.Addr]struct{}, len(addresses))}
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok {
			continue
		}
		a, ok := netip.AddrFromSlice(network.IP)
		if !ok {
			continue
		}
		a = a.Unmap()
		n.own[a] = struct{}{}
		bits, size := network.Mask.Size()
		// An address without a network has a prefix of its own length.
		if bits > 0 && size == a.BitLen() && bits < size {
			n.networks = append(n.networks, netip.PrefixFrom(a, bits).Masked())
		}
	}
	return n
}

// nodeAge is how old the addresses of the node may be when a server is asked. To read them takes
// some microseconds, and is done only while queries are forwarded.
const nodeAge = time.Second

// nodeReader reads the addresses of the node.
type nodeReader struct {
	read func() ([]net.Addr, error)
	// route is isOwnRoute, or nil.
	route func(netip.Addr) (bool, error)
	now   func() time.Time

	last atomic.Pointer[nodeReading]
	// mu is held while the addresses are read.
	mu sync.Mutex
	// routeless is set while the kernel does not report routes.
	routeless atomic.Bool
}

// nodeReading is what was read at a time.
type nodeReading struct {
	node *node
	at   time.Time
	err  error
}

func newNodeReader() *nodeReader {
	return &nodeReader{read: net.InterfaceAddrs, route: isOwnRoute, now: time.Now}
}

// open reads the addresses for the first time.
func (r *nodeReader) open() error {
	r.addresses()
	if err := r.last.Load().err; err != nil {
		return fmt.Errorf("the addresses of the node's interfaces can't be read: %w; expected a process that may open a socket of the family AF_NETLINK (RestrictAddressFamilies of systemd)", err)
	}
	return nil
}

// addresses returns the node as it was no longer than nodeAge ago, nil if that is not known. What
// can't be read stays as it was.
func (r *nodeReader) addresses() *node {
	if last := r.last.Load(); last != nil && r.now().Sub(last.at) < nodeAge {
		return last.node
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last.Load()
	if last != nil && r.now().Sub(last.at) < nodeAge {
		return last.node // another query has read them
	}
	next := &nodeReading{at: r.now()}
	all, err := r.read()
	switch {
	case err == nil:
		next.node = newNode(all)
		if r.route != nil {
			next.node.isRouted = r.isRouted
		}
	case last != nil:
		next.node = last.node
	}
	next.err = err
	r.report(last, next)
	r.last.Store(next)
	return next.node
}

// report logs a change of whether the addresses can be read.
func (*nodeReader) report(last, next *nodeReading) {
	switch {
	case last == nil:
	case next.err != nil && last.err == nil:
		log.Warningf("the addresses of the node's interfaces can't be read, those known stay: %v", next.err)
	case next.err == nil && last.err != nil:
		log.Infof("the addresses of the node's interfaces can be read again")
	}
}

// isRouted reports whether the route to an address leads to the node itself. Without a report of the
// kernel it is true. isRouted logs when the reports end and when they come back.
func (r *nodeReader) isRouted(a netip.Addr) bool {
	own, err := r.route(a)
	switch was := r.routeless.Swap(err != nil); {
	case err != nil && !was:
		log.Warningf("the kernel does not report its routes, so only servers that allow has by their addresses are asked: %v", err)
	case err == nil && was:
		log.Infof("the kernel reports its routes again")
	}
	return own || err != nil
}
