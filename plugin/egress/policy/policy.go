// SPDX-License-Identifier: Apache-2.0

// Package policy has the egress policies of guests: which names and addresses a guest may reach. It parses the entries of a
// policy, and finds the entry for a name or an address. Names match as in NPEP-133
// (kubernetes-sigs/network-policy-api).
//
//	words ─► Parse ─► []Entry ─► New ─► *Policy
//	                                      │
//	question ─► Name.Set ─► Policy.Name ──┤
//	answer ───────────────► Policy.Address┘
//
// It knows neither guests nor messages nor plugins. A Policy does not change, so goroutines may share it. There is no lock.
package policy

import (
	"net/netip"
	"slices"
)

// Verdict is what a policy says of a name. A higher verdict of one of several policies counts.
type Verdict uint8

const (
	// Denied: the policy does not allow the name, nor a name below it.
	Denied Verdict = iota
	// Above: the policy does not allow the name, but names below it. The name itself must not be denied by NXDOMAIN, which
	// denies the names below too (RFC 8020).
	Above
	// Allowed: the policy allows the name.
	Allowed
)

// Policy is a set of entries. The zero value allows nothing.
type Policy struct {
	entries []Entry
	// names has each name of an entry and all names above it.
	names map[string]node
	// prefixes has each prefix, with the index of its first entry, and lengths has their lengths by family, longest first.
	prefixes map[netip.Prefix]int
	lengths4 []int
	lengths6 []int
}

// node is a name of Policy.names. The fields are indexes in entries, -1 for none.
type node struct{ exact, below int }

// New returns the policy of entries.
func New(entries []Entry) *Policy {
	p := &Policy{entries: slices.Clone(entries), names: map[string]node{}, prefixes: map[netip.Prefix]int{}}
	for i := range p.entries {
		if e := &p.entries[i]; e.Name != "" {
			p.addName(e, i)
		} else if _, there := p.prefixes[e.Prefix]; !there {
			p.prefixes[e.Prefix] = i
			lengths := &p.lengths4
			if e.Prefix.Addr().Is6() {
				lengths = &p.lengths6
			}
			*lengths = append(*lengths, e.Prefix.Bits())
		}
	}
	for _, lengths := range []*[]int{&p.lengths4, &p.lengths6} {
		slices.SortFunc(*lengths, func(a, b int) int { return b - a })
		*lengths = slices.Compact(*lengths)
	}
	return p
}

func (p *Policy) addName(e *Entry, index int) {
	at := p.node(e.Name)
	if e.Wildcard && at.below < 0 {
		at.below = index
	} else if !e.Wildcard && at.exact < 0 {
		at.exact = index
	}
	p.names[e.Name] = at
	for i := range len(e.Name) {
		if e.Name[i] != '.' {
			continue
		}
		above := e.Name[i+1:]
		if above == "" {
			above = "."
		}
		p.names[above] = p.node(above)
	}
}

// node returns the node of a name, or an empty node if the name has no node.
func (p *Policy) node(name string) node {
	if n, ok := p.names[name]; ok {
		return n
	}
	return node{-1, -1}
}

// Entries returns the entries. The caller must not change them.
func (p *Policy) Entries() []Entry { return p.entries }

// Name returns what the policy says of a name, and the entry that allows it: the entry of the name itself, or else the
// wildcard with the longest name. It allocates nothing.
func (p *Policy) Name(n *Name) (Verdict, *Entry) {
	wildcard := -1
	at, known := p.names["."]
	for i := n.count - 1; known && i >= 0; i-- {
		if at.below >= 0 {
			wildcard = at.below
		}
		at, known = p.names[string(n.text[n.labels[i]:n.length])]
	}
	switch {
	case known && n.count > 0 && at.exact >= 0:
		return Allowed, &p.entries[at.exact]
	case wildcard >= 0:
		return Allowed, &p.entries[wildcard]
	case known:
		return Above, nil
	}
	return Denied, nil
}

// Address returns the entry with the longest prefix that has an address, nil for none.
func (p *Policy) Address(a netip.Addr) *Entry {
	a = a.Unmap()
	lengths := p.lengths4
	if a.Is6() {
		lengths = p.lengths6
	}
	for _, bits := range lengths {
		prefix, err := a.Prefix(bits)
		if err != nil {
			return nil
		}
		if i, ok := p.prefixes[prefix]; ok {
			return &p.entries[i]
		}
	}
	return nil
}

var (
	// translated4 is the prefix of IPv4 addresses behind a NAT64 (RFC 6052, section 2.1).
	translated4 = netip.MustParsePrefix("64:ff9b::/96")
	// special are networks that netip does not call private, loopback, link-local or multicast: "this network" (RFC 791,
	// section 3.2), shared address space (RFC 6598), and addresses that are reserved, with the broadcast address (RFC 1112,
	// section 4).
	special = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("240.0.0.0/4")}
)

// IsSpecial reports whether an address is not an address of the public Internet: private, loopback, link-local and the like. A name of
// a policy must not lead there, since the owner of a name chooses its addresses: an entry has to name the address.
func IsSpecial(a netip.Addr) bool {
	a = a.Unmap()
	if translated4.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() ||
		slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
