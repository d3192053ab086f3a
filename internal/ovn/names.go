// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

var (
	errNoName     = errors.New("it is empty")
	errHalfEscape = errors.New("it is no domain name: it ends within an escape")
)

// presentation brings a name of any bytes into the form that miekg/dns gives
// the name of a question, fully qualified. Its case is kept.
func presentation(name string) (string, error) {
	if name == "" || name == "." {
		return "", errNoName
	}
	if endsInEscape(name) {
		return "", errHalfEscape // PackDomainName would drop the last label
	}
	if rest, dot := strings.CutSuffix(name, "."); !dot || endsInEscape(rest) {
		name += "."
	}
	var wire [255]byte
	n, err := dns.PackDomainName(name, wire[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("it is no domain name: %w", err)
	}
	out, _, err := dns.UnpackDomainName(wire[:n], 0)
	if err != nil {
		return "", fmt.Errorf("it is no domain name: %w", err)
	}
	return out, nil
}

// endsInEscape tells whether a backslash at the end escapes what would follow.
// It counts bytes, where dns.IsFqdn miscounts after a character of several.
func endsInEscape(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// canonical is presentation in lower case: what names are compared by.
func canonical(name string) (string, error) {
	if isCanonical(name) {
		if !strings.HasSuffix(name, ".") {
			name += "."
		}
		return name, nil
	}
	name, err := presentation(name)
	if err != nil {
		return "", err
	}
	return dns.CanonicalName(name), nil
}

// isCanonical spares the usual name the way through the wire format: labels of
// 1 to 63 letters, digits, hyphens and underscores, at most 253 bytes.
func isCanonical(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return false
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			if label++; label > 63 {
				return false
			}
		default:
			return false
		}
	}
	return label > 0
}

// CanonicalDomain brings a configured domain into the form that Lookup takes.
func CanonicalDomain(domain string) (string, error) {
	out, err := canonical(domain)
	if err != nil {
		return "", fmt.Errorf("domain %.80q: %w", domain, err)
	}
	return out, nil
}

// join puts a domain behind a hostname, unless it is there already. It is false
// if the result would be too long for a domain name. Both are canonical.
func join(hostname, domain string) (string, bool) {
	if rest, ok := strings.CutSuffix(hostname, domain); ok && strings.HasSuffix(rest, ".") {
		return hostname, true
	}
	full := hostname + domain
	_, ok := dns.IsDomainName(full)
	return full, ok
}

const (
	reverse4 = ".in-addr.arpa."
	reverse6 = ".ip6.arpa."
)

// isReverse tells whether a canonical name holds PTR records.
func isReverse(name string) bool {
	return strings.HasSuffix(name, reverse4) || strings.HasSuffix(name, reverse6)
}

var (
	allIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	allIPv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// parseReverse gives the address that a canonical name below in-addr.arpa (RFC
// 1035, section 3.5) or ip6.arpa (RFC 3596, section 2.5) stands for. It is false
// for one that stands for no single address.
func parseReverse(name string) (netip.Addr, bool) {
	p, ok := parseReversePrefix(name)
	return p.Addr(), ok && p.IsSingleIP()
}

// parseReversePrefix gives the addresses whose names are a name like that, or
// stand below it.
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

func parseReverse4(labels string) (netip.Prefix, bool) {
	var a [4]byte
	n := 0
	for more := true; more; n++ {
		var label string
		label, labels, more = strings.Cut(labels, ".")
		if n == len(a) || len(label) == 0 || len(label) > 3 || len(label) > 1 && label[0] == '0' {
			return netip.Prefix{}, false
		}
		value := 0
		for _, c := range []byte(label) {
			if c < '0' || c > '9' {
				return netip.Prefix{}, false
			}
			value = 10*value + int(c-'0')
		}
		if value > 255 {
			return netip.Prefix{}, false
		}
		a[n] = byte(value)
	}
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
		at := n - 1 - i // from the front
		a[at/2] |= nibble << (4 * (1 - at%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), 4*n), true
}
