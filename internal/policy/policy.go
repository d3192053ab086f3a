// SPDX-License-Identifier: Apache-2.0

// Package policy has egress policies: which names and addresses a guest may reach. Names match as in NPEP-133
// (kubernetes-sigs/network-policy-api).
//
//	words ─► Parse ─► []Entry ─► New ─► *Policy
//	text ───► ParseText ──────────────────┤
//	                                      │
//	question ─► Policy.Name ──────────────┤
//	answer ───► Policy.Address ───────────┘
//
// A Policy does not change once At is set: goroutines may share it.
package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// Verdict is a decision about a name. Of several policies the highest counts.
type Verdict uint8

const (
	// Denied: neither the name nor a name below is allowed.
	Denied Verdict = iota
	// Above: names below are allowed. NXDOMAIN would deny these (RFC 8020).
	Above
	Allowed
)

// Policy is a set of entries. The zero value allows nothing.
type Policy struct {
	// At is the row that has the text, for operators; "" for the Corefile.
	At      string
	entries []Entry
	// names has the names of entries and all names above them, without the root.
	names map[string]node
	// prefixes has the first entry of each prefix; lengths are sorted, longest first.
	prefixes map[netip.Prefix]int
	lengths4 []int
	lengths6 []int
}

type node struct{ exact, below []*Entry }

// New returns the policy of entries.
func New(entries []Entry) *Policy {
	p := &Policy{entries: slices.Clone(entries), names: map[string]node{}, prefixes: map[netip.Prefix]int{}}
	for i := range p.entries {
		if e := &p.entries[i]; e.Name != "" {
			p.addName(e)
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

func (p *Policy) addName(e *Entry) {
	at := p.names[e.Name]
	if e.Wildcard {
		at.below = append(at.below, e)
	} else {
		at.exact = append(at.exact, e)
	}
	p.names[e.Name] = at
	for i := range len(e.Name) {
		if e.Name[i] != '.' {
			continue
		}
		above := e.Name[i+1:]
		if _, there := p.names[above]; !there && above != "" {
			p.names[above] = node{}
		}
	}
}

// Entries returns the entries, which the caller must not change.
func (p *Policy) Entries() []Entry { return p.entries }

// Name appends the entries that allow a name: entries for longer names come later, for the name itself last. qname is in
// lower case, as package dns unpacks it.
func (p *Policy) Name(qname string, entries []*Entry) (Verdict, []*Entry) {
	before := len(entries)
	at, known := node{}, len(p.names) > 0
	for begin := len(qname); known && begin > 1; {
		entries = append(entries, at.below...)
		begin = labelBefore(qname, begin)
		at, known = p.names[qname[begin:]]
	}
	if known {
		entries = append(entries, at.exact...)
	}
	switch {
	case len(entries) > before:
		return Allowed, entries
	case known:
		return Above, entries
	}
	return Denied, entries
}

// labelBefore returns where the label begins that ends with the dot before end. Escaped dots are of a label (RFC 1035,
// section 5.1).
func labelBefore(qname string, end int) int {
	for end--; ; {
		end = strings.LastIndexByte(qname[:end], '.')
		text := qname[:max(end, 0)]
		if escapes := len(text) - len(strings.TrimRight(text, `\`)); escapes%2 == 0 {
			return end + 1
		}
	}
}

// Address returns the entry with the longest prefix that has a, nil for none.
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
