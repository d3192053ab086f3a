// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Hostnames has the hostnames of one network's ports. It is immutable.
type Hostnames struct {
	// names has hostnames bare and with the port's domain. Its addresses point only to names with a domain.
	names addressTree
	// bare has the hostnames without a domain. It shares the tree of names if no port has a domain.
	bare     addressTree
	machines map[netip.Addr]struct{}
}

func (h *Hostnames) Len() int { return len(h.names.items) }

func (h *Hostnames) exists(name, domain string) bool {
	if h.names.exists(name) {
		return true
	}
	if domain == "" || len(h.bare.items) == 0 {
		return false
	}
	if Under(domain, name) {
		return true
	}
	bare, ok := strings.CutSuffix(name, domain)
	return ok && h.bare.exists(bare)
}

type HostnamesBuilder struct {
	bare     []hostname
	within   []hostname // ports with a domain, without it
	full     []hostname // the same with it
	machines map[netip.Addr]struct{}
	size     int
}

type hostname struct {
	name      string
	addresses []netip.Addr
}

func NewHostnamesBuilder() *HostnamesBuilder { return new(HostnamesBuilder) }

func (b *HostnamesBuilder) Grow(size int) { b.size = size }

// Add adds a port. name and domain are canonical, domain may be "". addresses are sorted, not empty, and
// shared.
func (b *HostnamesBuilder) Add(name, domain string, addresses []netip.Addr) {
	if domain == "" {
		b.append(&b.bare, hostname{name, addresses})
		return
	}
	b.append(&b.within, hostname{name, addresses})
	if full, ok := join(name, domain); ok {
		name = full
	}
	b.append(&b.full, hostname{name, addresses})
}

func (b *HostnamesBuilder) append(to *[]hostname, h hostname) {
	if *to == nil {
		*to = make([]hostname, 0, b.size)
	}
	*to = append(*to, h)
}

func (b *HostnamesBuilder) SetMachines(all map[netip.Addr]struct{}) { b.machines = all }

func (b *HostnamesBuilder) Done() *Hostnames {
	h := &Hostnames{machines: b.machines}
	h.bare = addressTreeOf(b.bare, b.bare)
	if len(b.full) == 0 {
		h.names.tree = h.bare.tree
	} else {
		h.names = addressTreeOf(slices.Concat(b.bare, b.within, b.full), b.full)
	}
	return h
}

// addressTreeOf sorts all. Only targets are names of addresses.
func addressTreeOf(all, targets []hostname) addressTree {
	pairs := make([]addressName, 0, len(targets))
	for _, h := range targets {
		pairs = appendPairs(pairs, h.name, h.addresses)
	}
	return new(addressTree).edit(entriesOf(all), pairs)
}

func entriesOf(all []hostname) []change[entry] {
	slices.SortFunc(all, func(a, b hostname) int { return compareNames(a.name, b.name) })
	changes := make([]change[entry], 0, len(all))
	for len(all) > 0 {
		name, addresses, end := all[0].name, all[0].addresses, 1
		for end < len(all) && all[end].name == name {
			end++
		}
		if end > 1 {
			addresses = nil
			for _, h := range all[:end] {
				addresses = append(addresses, h.addresses...)
			}
			addresses = SortAddresses(addresses)
		}
		changes = append(changes, change[entry]{name: name, has: newEntry(addresses, nil)})
		all = all[end:]
	}
	return changes
}

func SortAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
