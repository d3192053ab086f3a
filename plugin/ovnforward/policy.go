// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/address"
)

// policy permits only servers that the tenant could reach itself, as the node asks from its own address. It
// is immutable.
type policy struct {
	allow, deny []netip.Prefix
	ports       []uint16
	resolvers   []netip.Addr
}

// reason is why a server is refused, as a metric's label.
type reason string

// The reasons. The first that applies counts.
const (
	permitted       reason = ""
	reasonUnusable  reason = "unusable"  // not unicast, or link-local
	reasonResolver  reason = "resolver"  // a resolver address
	reasonDenied    reason = "denied"    // by deny
	reasonNode      reason = "node"      // an address of the node by interface or route, and not itself in allow
	reasonConnected reason = "connected" // in a network of the node, and not in allow as such
	reasonSpecial   reason = "special"   // private or special-purpose, and not in allow
	reasonPort      reason = "port"      // neither 53 nor in ports
)

const defaultPort = 53

// refuses returns a reason, or permitted. A nil n (addresses unknown) refuses all.
func (p *policy) refuses(server netip.AddrPort, n *address.Node) reason {
	a := server.Addr().Unmap()
	if r := p.refusesAddress(a, n); r != permitted {
		return r
	}
	if behind := address.Destination(a); behind != a {
		if r := p.refusesAddress(behind, n); r != permitted {
			return r
		}
	}
	if server.Port() != defaultPort && !slices.Contains(p.ports, server.Port()) {
		return reasonPort
	}
	return permitted
}

func (p *policy) refusesAddress(a netip.Addr, n *address.Node) reason {
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == broadcast:
		return reasonUnusable
	case slices.Contains(p.resolvers, a):
		return reasonResolver
	case address.IsIn(p.deny, a):
		return reasonDenied
	case n == nil || !p.allows(a, a.BitLen()) && (a.IsLoopback() || n.Has(a)):
		return reasonNode
	}
	for _, network := range n.Networks {
		if network.Contains(a) && !p.allows(a, network.Bits()) {
			return reasonConnected
		}
	}
	if !address.IsGlobal(a) && !p.allows(a, 0) {
		return reasonSpecial
	}
	return permitted
}

// allows takes only prefixes of at least bits.
func (p *policy) allows(a netip.Addr, bits int) bool {
	return slices.ContainsFunc(p.allow, func(prefix netip.Prefix) bool { return prefix.Contains(a) && prefix.Bits() >= bits })
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
