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

// node has the node's addresses and connected networks. It is immutable.
type node struct {
	own      map[netip.Addr]struct{}
	networks []netip.Prefix
	// isRouted reports local delivery by a route. May be nil.
	isRouted func(netip.Addr) bool
}

// has includes routes, as by `ip route add local PREFIX dev lo`.
func (n *node) has(a netip.Addr) bool {
	_, ok := n.own[a]
	return ok || n.isRouted != nil && n.isRouted(a)
}

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
		// A prefix of full length is an address without a network.
		if bits > 0 && size == a.BitLen() && bits < size {
			n.networks = append(n.networks, netip.PrefixFrom(a, bits).Masked())
		}
	}
	return n
}

// nodeAge is the greatest age of the addresses. A read takes some microseconds.
const nodeAge = time.Second

type nodeReader struct {
	read func() ([]net.Addr, error)
	// route is isOwnRoute, or nil.
	route func(netip.Addr) (bool, error)
	now   func() time.Time

	last atomic.Pointer[nodeReading]
	mu   sync.Mutex
	// routeless: the kernel does not report routes.
	routeless atomic.Bool
}

type nodeReading struct {
	node *node
	at   time.Time
	err  error
}

func newNodeReader() *nodeReader {
	return &nodeReader{read: net.InterfaceAddrs, route: isOwnRoute, now: time.Now}
}

func (r *nodeReader) open() error {
	r.addresses()
	if err := r.last.Load().err; err != nil {
		return fmt.Errorf("the addresses of the node's interfaces can't be read: %w; expected a process that may open a socket of the family AF_NETLINK (RestrictAddressFamilies of systemd)", err)
	}
	return nil
}

// addresses are at most nodeAge old, nil for none. A failed read keeps the previous ones.
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

func (*nodeReader) report(last, next *nodeReading) {
	switch {
	case last == nil:
	case next.err != nil && last.err == nil:
		log.Warningf("the addresses of the node's interfaces can't be read, those known stay: %v", next.err)
	case next.err == nil && last.err != nil:
		log.Infof("the addresses of the node's interfaces can be read again")
	}
}

// isRouted is true if the kernel does not answer.
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
