// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// reverseIndex finds the names of an address. It is immutable.
type reverseIndex struct {
	// addresses[i] has the name names[i], in the order of compareAddressNames. Two
	// slices side by side, so that the names of one address can be returned as a
	// slice without a copy.
	addresses []netip.Addr
	names     []string // fully qualified
}

// addressName is one name of an address.
type addressName struct {
	address netip.Addr
	name    string
}

// compareAddressNames puts the single labels of an address after its longer names.
func compareAddressNames(a, b addressName) int {
	if c := a.address.Compare(b.address); c != 0 {
		return c
	}
	switch sa, sb := isSingleLabel(a.name), isSingleLabel(b.name); {
	case sa && !sb:
		return 1
	case sb && !sa:
		return -1
	}
	return cmp.Compare(a.name, b.name)
}

// isSingleLabel reports whether a fully qualified name is a top-level one.
func isSingleLabel(name string) bool { return strings.IndexByte(name, '.') == len(name)-1 }

func appendPairs(pairs []addressName, name string, addresses []netip.Addr) []addressName {
	for _, a := range addresses {
		pairs = append(pairs, addressName{a, name})
	}
	return pairs
}

// edit returns an index without the pairs of gone and with those of more, which it
// sorts in place. It takes time in proportion to the whole, but sorts only what is
// new.
func (r reverseIndex) edit(gone map[addressName]struct{}, more []addressName) reverseIndex {
	slices.SortFunc(more, compareAddressNames)
	more = slices.Compact(more)
	size := len(r.names) + len(more)
	if size == 0 {
		return reverseIndex{}
	}
	out := reverseIndex{make([]netip.Addr, 0, size), make([]string, 0, size)}
	add := func(p addressName) {
		out.addresses = append(out.addresses, p.address)
		out.names = append(out.names, p.name)
	}
	for i, name := range r.names {
		p := addressName{r.addresses[i], name}
		for len(more) > 0 && compareAddressNames(more[0], p) < 0 {
			add(more[0])
			more = more[1:]
		}
		if _, ok := gone[p]; !ok && (len(more) == 0 || more[0] != p) {
			add(p)
		}
	}
	for _, p := range more {
		add(p)
	}
	return out
}

// find returns the names of an address: the longer ones if there are any, else the
// single labels. The slice is shared.
func (r reverseIndex) find(address netip.Addr) []string {
	first := sort.Search(len(r.addresses), func(i int) bool { return r.addresses[i].Compare(address) >= 0 })
	end := first
	for end < len(r.addresses) && r.addresses[end] == address && (end == first || !isSingleLabel(r.names[end]) || isSingleLabel(r.names[first])) {
		end++
	}
	return r.names[first:end:end]
}

// hasWithin reports whether an address of the prefix has a name.
func (r reverseIndex) hasWithin(p netip.Prefix) bool {
	i := sort.Search(len(r.addresses), func(i int) bool { return r.addresses[i].Compare(p.Addr()) >= 0 })
	return i < len(r.addresses) && p.Contains(r.addresses[i])
}
