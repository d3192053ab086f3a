// SPDX-License-Identifier: Apache-2.0

package address

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	clog "github.com/coredns/coredns/plugin/pkg/log"
)

// Node has the addresses of the node at a time. It is immutable.
type Node struct {
	own map[netip.Addr]struct{}
	// Networks are those that the node's interfaces are connected to.
	Networks []netip.Prefix
	// isRouted reports local delivery by a route. May be nil.
	isRouted func(netip.Addr) bool
}

// OnInterface reports whether an interface of the node has an address.
func (n *Node) OnInterface(a netip.Addr) bool {
	_, ok := n.own[a]
	return ok
}

// Has is OnInterface with addresses of local routes, as by `ip route add local PREFIX dev lo`. It asks the kernel, and is true
// if the kernel does not answer.
func (n *Node) Has(a netip.Addr) bool {
	return n.OnInterface(a) || n.isRouted != nil && n.isRouted(a)
}

// NewNode returns a node by the addresses of its interfaces, without routes.
func NewNode(addresses []net.Addr) *Node {
	n := &Node{own: make(map[netip.Addr]struct{}, len(addresses))}
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
			n.Networks = append(n.Networks, netip.PrefixFrom(a, bits).Masked())
		}
	}
	return n
}

// nodeAge is the greatest age of the addresses. A read takes some microseconds.
const nodeAge = time.Second

// NodeReader reads the addresses of the node. Its methods may be called concurrently.
type NodeReader struct {
	log  clog.P
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
	node *Node
	at   time.Time
	err  error
}

// NewNodeReader returns a reader that logs once what the kernel does not report.
func NewNodeReader(log clog.P) *NodeReader {
	return &NodeReader{log: log, read: net.InterfaceAddrs, route: isOwnRoute, now: time.Now}
}

// Open reads the addresses for the first time.
func (r *NodeReader) Open() error {
	r.Node()
	if err := r.last.Load().err; err != nil {
		return fmt.Errorf("the addresses of the node's interfaces can't be read: %w; expected a process that may open a socket of the family AF_NETLINK (RestrictAddressFamilies of systemd)", err)
	}
	return nil
}

// Node returns addresses of at most nodeAge, nil if none could be read. A failed read keeps the previous ones.
func (r *NodeReader) Node() *Node {
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
		next.node = NewNode(all)
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

// OnInterface is Node.OnInterface, false if no addresses could be read.
func (r *NodeReader) OnInterface(a netip.Addr) bool {
	n := r.Node()
	return n != nil && n.OnInterface(a)
}

func (r *NodeReader) report(last, next *nodeReading) {
	switch {
	case last == nil:
	case next.err != nil && last.err == nil:
		r.log.Warningf("the addresses of the node's interfaces can't be read, those known stay: %v", next.err)
	case next.err == nil && last.err != nil:
		r.log.Infof("the addresses of the node's interfaces can be read again")
	}
}

// isRouted is true if the kernel does not answer.
func (r *NodeReader) isRouted(a netip.Addr) bool {
	own, err := r.route(a)
	switch was := r.routeless.Swap(err != nil); {
	case err != nil && !was:
		r.log.Warningf("the kernel does not report its routes, so each address counts as the node's: %v", err)
	case err == nil && was:
		r.log.Infof("the kernel reports its routes again")
	}
	return own || err != nil
}
