// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	reverse4 = ".in-addr.arpa."
	reverse6 = ".ip6.arpa."
)

func isReverse(name string) bool {
	return strings.HasSuffix(name, reverse4) || strings.HasSuffix(name, reverse6)
}

var (
	allIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	allIPv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// parseReverse parses a canonical name below in-addr.arpa (RFC 1035, section 3.5) or ip6.arpa (RFC 3596,
// section 2.5).
func parseReverse(name string) (netip.Addr, bool) {
	p, ok := parseReversePrefix(name)
	return p.Addr(), ok && p.IsSingleIP()
}

func parseReversePrefix(name string) (netip.Prefix, bool) {
	if labels, ok := strings.CutSuffix(name, reverse4); ok {
		return parseReverse4(labels)
	}
	if labels, ok := strings.CutSuffix(name, reverse6); ok {
		return parseReverse6(labels)
	}
	switch name {
	case reverse4[1:]:
		return allIPv4, true
	case reverse6[1:]:
		return allIPv6, true
	}
	return netip.Prefix{}, false
}

// One pass, as a lookup in several networks repeats it.
func parseReverse4(labels string) (netip.Prefix, bool) {
	var a [4]byte
	n, value, digits := 0, 0, 0
	for i := range len(labels) {
		switch c := labels[i]; {
		case c == '.':
			if n == len(a)-1 || digits == 0 {
				return netip.Prefix{}, false
			}
			a[n] = byte(value)
			n, value, digits = n+1, 0, 0
		case c < '0' || c > '9' || digits > 0 && value == 0:
			return netip.Prefix{}, false
		default:
			digits++
			if value = 10*value + int(c-'0'); value > 255 {
				return netip.Prefix{}, false
			}
		}
	}
	if digits == 0 {
		return netip.Prefix{}, false
	}
	a[n] = byte(value)
	n++
	slices.Reverse(a[:n])
	return netip.PrefixFrom(netip.AddrFrom4(a), 8*n), true
}

func parseReverse6(labels string) (netip.Prefix, bool) {
	if len(labels) > 63 || len(labels)%2 == 0 {
		return netip.Prefix{}, false
	}
	var a [16]byte
	n := (len(labels) + 1) / 2
	for i := range n {
		if i > 0 && labels[2*i-1] != '.' {
			return netip.Prefix{}, false
		}
		var nibble byte
		switch c := labels[2*i]; {
		case '0' <= c && c <= '9':
			nibble = c - '0'
		case 'a' <= c && c <= 'f':
			nibble = c - 'a' + 10
		default:
			return netip.Prefix{}, false
		}
		at := n - 1 - i
		a[at/2] |= nibble << (4 * (1 - at%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), 4*n), true
}
