// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// reverse leads from addresses to names: two slices side by side, in the order
// of comparePairs, so that the names of one address are a slice ready to hand
// out. It is immutable.
type reverse struct {
	addresses []netip.Addr
	names     []string
}

type pair struct {
	address netip.Addr
	name    string
}

// comparePairs puts the single labels of an address after its longer names.
func comparePairs(a, b pair) int {
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

// isSingleLabel is for a fully qualified name.
func isSingleLabel(name string) bool { return strings.IndexByte(name, '.') == len(name)-1 }

func appendPairs(pairs []pair, name string, addresses []netip.Addr) []pair {
	for _, a := range addresses {
		pairs = append(pairs, pair{a, name})
	}
	return pairs
}

// edit returns a reverse without the pairs of gone and with those of more, which
// it sorts in place. It takes time in proportion to the whole, but sorts no more
// than what is new.
func (r reverse) edit(gone map[pair]struct{}, more []pair) reverse {
	slices.SortFunc(more, comparePairs)
	more = slices.Compact(more)
	size := len(r.names) + len(more)
	if size == 0 {
		return reverse{}
	}
	out := reverse{make([]netip.Addr, 0, size), make([]string, 0, size)}
	add := func(p pair) {
		out.addresses = append(out.addresses, p.address)
		out.names = append(out.names, p.name)
	}
	for i, name := range r.names {
		p := pair{r.addresses[i], name}
		for len(more) > 0 && comparePairs(more[0], p) < 0 {
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

// find returns the names of an address: the longer ones if there are any, else
// the single labels.
func (r reverse) find(address netip.Addr) []string {
	first := sort.Search(len(r.addresses), func(i int) bool { return r.addresses[i].Compare(address) >= 0 })
	end := first
	for end < len(r.addresses) && r.addresses[end] == address && (end == first || !isSingleLabel(r.names[end]) || isSingleLabel(r.names[first])) {
		end++
	}
	return r.names[first:end:end]
}

// within tells whether an address of the prefix has a name.
func (r reverse) within(p netip.Prefix) bool {
	i := sort.Search(len(r.addresses), func(i int) bool { return r.addresses[i].Compare(p.Addr()) >= 0 })
	return i < len(r.addresses) && p.Contains(r.addresses[i])
}
