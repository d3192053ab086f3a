// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Hostnames are the hostnames of the ports of one network. They are immutable.
type Hostnames struct {
	// names has every hostname, bare and with the port's domain. Its addresses have the names with
	// a domain, of the ports that have one.
	names addressTree
	// bare has the hostnames of ports that have no domain: the domain that completes
	// them belongs to who asks. It shares the tree of names if no port has a domain.
	bare addressTree
	// machines are the addresses of HostnamesBuilder.SetMachines.
	machines map[netip.Addr]struct{}
}

// Len is the number of names, bare ones and those with a domain.
func (h *Hostnames) Len() int { return len(h.names.items) }

// exists reports whether the name is that of a port or has such names below it.
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

// HostnamesBuilder collects the hostnames of one network.
type HostnamesBuilder struct {
	bare     []hostname // of ports without a domain
	within   []hostname // of ports with a domain, without it
	full     []hostname // of ports with a domain, with it
	machines map[netip.Addr]struct{}
	size     int
}

// hostname is one name of one port.
type hostname struct {
	name      string
	addresses []netip.Addr
}

// NewHostnamesBuilder returns an empty builder.
func NewHostnamesBuilder() *HostnamesBuilder { return new(HostnamesBuilder) }

// Grow makes room for size ports, before the first Add.
func (b *HostnamesBuilder) Grow(size int) { b.size = size }

// Add adds a port. Its hostname and domain are canonical, the domain "" if the port has
// none. The addresses are sorted, and there is at least one. They are shared with
// the caller, who must not change them any more.
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

// append appends to a list. The first call for a list makes room for all ports.
func (b *HostnamesBuilder) append(to *[]hostname, h hostname) {
	if *to == nil {
		*to = make([]hostname, 0, b.size)
	}
	*to = append(*to, h)
}

// SetMachines sets the addresses that Directory.HasMachine reports. They are shared with the
// caller, who must not change them any more once the hosts are done.
func (b *HostnamesBuilder) SetMachines(all map[netip.Addr]struct{}) { b.machines = all }

// Done returns the hosts. The builder must not be used any more.
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

// addressTreeOf returns a tree of hostnames, in which addresses have the names of targets. It
// sorts all.
func addressTreeOf(all, targets []hostname) addressTree {
	pairs := make([]addressName, 0, len(targets))
	for _, h := range targets {
		pairs = appendPairs(pairs, h.name, h.addresses)
	}
	return new(addressTree).edit(entriesOf(all), pairs)
}

// entriesOf sorts hostnames, and joins the addresses of ports with the same one.
func entriesOf(all []hostname) []change[entry] {
	slices.SortFunc(all, func(a, b hostname) int { return compareNames(a.name, b.name) })
	changes := make([]change[entry], 0, len(all))
	for len(all) > 0 {
		name, addresses, end := all[0].name, all[0].addresses, 1
		for end < len(all) && all[end].name == name {
			end++
		}
		if end > 1 {
			addresses = nil // the ports' slices are theirs
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

// SortAddresses sorts in place, IPv4 first, and drops repetitions.
func SortAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
