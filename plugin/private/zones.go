// SPDX-License-Identifier: Apache-2.0

package private

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// class is why a name is private, a label of the metric.
type class string

const (
	// Addresses that are not unique.
	classReverse class = "reverse"
	// Special-use names without servers.
	classSpecial class = "special"
	// Suffixes of private networks.
	classSuffix      class = "suffix"
	classAlso        class = "also"
	classSingleLabel class = "single-label"
)

// builtin is a zone that the Corefile may except.
type builtin struct {
	name   string
	class  class
	lookup func(qname string) (names.Answer, bool) // nil for a zone without names
}

// builtins are IANA's "Locally-Served DNS Zones", the "Special-Use Domain Names" that a resolver must not forward, and
// suffixes of private networks. The README has the sources.
func builtins() []builtin {
	all := []builtin{
		{"localhost.", classSpecial, lookupLocalhost},
		{"resolver.arpa.", classSpecial, everyName},
		{"127.in-addr.arpa.", classReverse, lookupLoopback},
		{loopback6, classReverse, lookupLoopback},
	}
	add := func(c class, zones ...string) {
		for _, z := range zones {
			all = append(all, builtin{z, c, nil})
		}
	}
	add(classReverse, "10.in-addr.arpa.", "168.192.in-addr.arpa.", "254.169.in-addr.arpa.", "0.in-addr.arpa.",
		"2.0.192.in-addr.arpa.", "100.51.198.in-addr.arpa.", "113.0.203.in-addr.arpa.", "255.255.255.255.in-addr.arpa.",
		unspecified6, "d.f.ip6.arpa.", "8.e.f.ip6.arpa.", "9.e.f.ip6.arpa.", "a.e.f.ip6.arpa.", "b.e.f.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.")
	for i := 16; i <= 31; i++ {
		add(classReverse, fmt.Sprintf("%d.172.in-addr.arpa.", i))
	}
	for i := 64; i <= 127; i++ {
		add(classReverse, fmt.Sprintf("%d.100.in-addr.arpa.", i))
	}
	add(classSpecial, "invalid.", "test.", "local.", "onion.", "alt.", "home.arpa.", "service.arpa.", "empty.as112.arpa.")
	add(classSuffix, "internal.", "intranet.", "private.", "corp.", "home.", "lan.", "mail.", "localdomain.", "openstacklocal.", "novalocal.")
	return all
}

var (
	unspecified6 = strings.Repeat("0.", 32) + "ip6.arpa."
	loopback6    = "1." + strings.Repeat("0.", 31) + "ip6.arpa."
	loopback4    = "1.0.0.127.in-addr.arpa."
)

// lookupLocalhost follows RFC 6761, section 6.3.
func lookupLocalhost(string) (names.Answer, bool) {
	return names.Answer{
		V4: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})},
		V6: []netip.Addr{netip.IPv6Loopback()},
	}, true
}

func lookupLoopback(qname string) (names.Answer, bool) {
	if qname == loopback4 || qname == loopback6 {
		return names.Answer{PTR: []string{"localhost."}}, true
	}
	return names.Answer{}, names.Under(loopback4, qname)
}

// everyName offers no designated resolver, and denies no name: a resolver must not deny names of resolver.arpa (RFC
// 9462, section 6.4).
func everyName(string) (names.Answer, bool) { return names.Answer{}, true }
