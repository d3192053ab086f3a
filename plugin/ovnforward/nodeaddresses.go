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

// node has the addresses of the node's interfaces and their connected networks. It is immutable.
type node struct {
	own      map[netip.Addr]struct{}
	networks []netip.Prefix
	// isRouted reports whether the kernel would deliver a packet to an address locally. May be nil.
	isRouted func(netip.Addr) bool
}

// has reports whether an address belongs to the node: to an interface, or by a route to the node itself, as with
// `ip route add local PREFIX dev lo`.
func (n *node) has(a netip.Addr) bool {
	_, ok := n.own[a]
	return ok || n.isRouted != nil && n.isRouted(a)
}

// newNode returns a node with addresses from package net.
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
		// An address without a network: the prefix has its full length.
		if bits > 0 && size == a.BitLen() && bits < size {
			n.networks = append(n.networks, netip.PrefixFrom(a, bits).Masked())
		}
	}
	return n
}

// nodeAge bounds the age of the node's addresses when a server is asked. Reading them takes some microseconds, and
// happens only while queries are forwarded.
const nodeAge = time.Second

// nodeReader reads the addresses of the node.
type nodeReader struct {
	read func() ([]net.Addr, error)
	// route is isOwnRoute, or nil.
	route func(netip.Addr) (bool, error)
	now   func() time.Time

	last atomic.Pointer[nodeReading]
	// mu is held during a read of the addresses.
	mu sync.Mutex
	// routeless is set while the kernel does not report routes.
	routeless atomic.Bool
}

// nodeReading is the result of one read.
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

// addresses returns the node's addresses of nodeAge ago or later, nil if there are none. A failed read keeps the
// previous addresses.
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

// report logs when reads begin to fail and when they succeed again.
func (*nodeReader) report(last, next *nodeReading) {
	switch {
	case last == nil:
	case next.err != nil && last.err == nil:
		log.Warningf("the addresses of the node's interfaces can't be read, those known stay: %v", next.err)
	case next.err == nil && last.err != nil:
		log.Infof("the addresses of the node's interfaces can be read again")
	}
}

// isRouted reports whether the route to an address leads to the node itself. It is true if the kernel does not
// answer. isRouted logs when the kernel's answers end and when they return.
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
