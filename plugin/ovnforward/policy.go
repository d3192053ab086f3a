// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"slices"
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
func (p *policy) refuses(server netip.AddrPort, n *node) reason {
	a := server.Addr().Unmap()
	if r := p.refusesAddress(a, n); r != permitted {
		return r
	}
	if translated.Contains(a) {
		// The translated address (RFC 6052, section 2.1).
		b := a.As16()
		if r := p.refusesAddress(netip.AddrFrom4([4]byte(b[12:])), n); r != permitted {
			return r
		}
	}
	if server.Port() != defaultPort && !slices.Contains(p.ports, server.Port()) {
		return reasonPort
	}
	return permitted
}

func (p *policy) refusesAddress(a netip.Addr, n *node) reason {
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == broadcast:
		return reasonUnusable
	case slices.Contains(p.resolvers, a):
		return reasonResolver
	case contains(p.deny, a):
		return reasonDenied
	case n == nil || !p.allows(a, a.BitLen()) && (a.IsLoopback() || n.has(a)):
		return reasonNode
	}
	for _, network := range n.networks {
		if network.Contains(a) && !p.allows(a, network.Bits()) {
			return reasonConnected
		}
	}
	if contains(special, a) && !p.allows(a, 0) {
		return reasonSpecial
	}
	return permitted
}

// allows takes only prefixes of at least bits.
func (p *policy) allows(a netip.Addr, bits int) bool {
	return slices.ContainsFunc(p.allow, func(prefix netip.Prefix) bool { return prefix.Contains(a) && prefix.Bits() >= bits })
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

var (
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	// translated is the NAT64 prefix.
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// special are not globally reachable by RFC 6890's registries in 2026.
	special = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
		"2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	)
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
