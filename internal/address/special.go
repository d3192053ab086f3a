// SPDX-License-Identifier: Apache-2.0

// Package address knows the addresses that names and servers of others must not lead to: special addresses, and the
// addresses of the node.
package address

import (
	"net/netip"
	"slices"
)

// special4 and special6 list prefixes beside the private, loopback, link-local and multicast ones, which netip has
// methods for.
var special4 = prefixes(
	"0.0.0.0/8",        // "this network" (RFC 791, section 3.2)
	"100.64.0.0/10",    // shared address space (RFC 6598)
	"192.0.0.0/24",     // protocol assignments (RFC 6890); a cloud has its metadata service here
	"168.63.129.16/32", // Azure: the host of a virtual machine, with its credentials
	"192.88.99.0/24",   // relays of 6to4 (RFC 7526)
	"198.18.0.0/15",    // benchmarks (RFC 2544)
	"240.0.0.0/4",      // reserved, with the broadcast address (RFC 1112, section 4)
)

var special6 = prefixes(
	"::/96",          // IPv4-compatible (RFC 4291, section 2.5.5.1)
	"64:ff9b:1::/48", // translation to private IPv4 addresses (RFC 8215)
	"100::/64",       // discarded (RFC 6666)
	"100:0:0:1::/64", // dummy prefix (RFC 9780)
	"2001::/23",      // protocol assignments (RFC 2928), with Teredo
	"2002::/16",      // 6to4 (RFC 3056), which may lead to a private IPv4 address
	"5f00::/16",      // segment routing (RFC 9602)
	"fec0::/10",      // site-local (RFC 3879)
)

var documentation = prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")

// nat64 is the well-known prefix of translators (RFC 6052, section 2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// IsIn reports whether a prefix has an address.
func IsIn(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Destination returns the IPv4 address that packets to a reach if a is IPv4-mapped or has the prefix of NAT64, and a
// otherwise.
func Destination(a netip.Addr) netip.Addr {
	if a = a.Unmap(); nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// IsSpecial reports whether no public name should have an address, as it is private, loopback or for another special
// purpose. Addresses for documentation are not special.
func IsSpecial(a netip.Addr) bool {
	a = Destination(a)
	special := special4
	if a.Is6() {
		special = special6
	}
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || IsIn(special, a)
}

// IsGlobal reports whether an address is of the public Internet: not special, not for documentation, not behind NAT64.
func IsGlobal(a netip.Addr) bool {
	a = a.Unmap()
	return !IsSpecial(a) && !nat64.Contains(a) && !IsIn(documentation, a)
}
