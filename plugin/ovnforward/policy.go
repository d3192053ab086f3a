// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"slices"
)

// policy says which servers may be asked. A tenant names them, and the node asks them, with an
// address of its own: so the tenant must not come by them to whom it could not ask itself. It is
// immutable.
type policy struct {
	allow, deny []netip.Prefix
	// ports are those beside 53.
	ports []uint16
	// resolvers are the addresses at which guests ask.
	resolvers []netip.Addr
}

// reason says why a server is refused, as a label of a metric has it.
type reason string

// The reasons. What comes first counts.
const (
	permitted       reason = ""
	reasonUnusable  reason = "unusable"  // no unicast address, or one of a link
	reasonResolver  reason = "resolver"  // where guests ask
	reasonDenied    reason = "denied"    // by deny
	reasonNode      reason = "node"      // an address of the node by interface or route, and not in allow by itself
	reasonConnected reason = "connected" // in a network of the node, and not in allow as such
	reasonSpecial   reason = "special"   // private or for special purposes, and not in allow
	reasonPort      reason = "port"      // neither 53 nor in ports
)

// defaultPort is the port that every server may have.
const defaultPort = 53

// refuses returns why a server is refused, permitted if it is not. n is nil if the addresses of
// the node are not known: then all are refused.
func (p *policy) refuses(server netip.AddrPort, n *node) reason {
	a := server.Addr().Unmap()
	if r := p.refusesAddress(a, n); r != permitted {
		return r
	}
	if translated.Contains(a) {
		// What it is translated to (RFC 6052, section 2.1).
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

// allows reports whether a prefix of allow has an address, one that is as long at least as given.
func (p *policy) allows(a netip.Addr, bits int) bool {
	return slices.ContainsFunc(p.allow, func(prefix netip.Prefix) bool { return prefix.Contains(a) && prefix.Bits() >= bits })
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

var (
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	// translated is the prefix of IPv4 addresses behind a NAT64.
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// special are the networks for private use and for special purposes, by the registries of
	// RFC 6890 as they are in 2026, those that can be reached globally aside.
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
