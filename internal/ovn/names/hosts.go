// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the hostnames of the ports of one network. They are immutable.
type Hosts struct {
	// names has every hostname, bare and with the port's domain.
	names map[string]*entry
	// bare has the hostnames of ports that have no domain: the domain that completes
	// them belongs to who asks. It is the same map as names if no port has a domain.
	bare map[string]*entry
	// below and bareBelow are the descendants of names and bare.
	below, bareBelow descendants
	// fullReverse has the hostnames with their domain of ports that have one,
	// bareReverse those of the others.
	fullReverse, bareReverse reverseIndex
	// machines are the addresses of HostsBuilder.SetMachines.
	machines map[netip.Addr]struct{}
}

// Len is the number of names, bare ones and those with a domain.
func (h *Hosts) Len() int { return len(h.names) }

// exists reports whether the name is that of a port or has such names below it.
func (h *Hosts) exists(name, domain string) bool {
	if h.names[name] != nil || h.below[name] > 0 {
		return true
	}
	if domain == "" || len(h.bare) == 0 {
		return false
	}
	if Under(domain, name) {
		return true
	}
	bare, ok := strings.CutSuffix(name, domain)
	return ok && (h.bare[bare] != nil || h.bareBelow[bare] > 0)
}

// HostsBuilder collects the hostnames of one network.
type HostsBuilder struct {
	names, bare map[string]*entry
	full        []addressName // hostnames with their domain
	single      []addressName // hostnames of ports without a domain
	domains     bool          // a port has a domain
	machines    map[netip.Addr]struct{}
}

// NewHostsBuilder returns an empty builder.
func NewHostsBuilder() *HostsBuilder {
	return &HostsBuilder{names: make(map[string]*entry), bare: make(map[string]*entry)}
}

// Add adds a port. Hostname and domain are canonical, the domain "" if the port has
// none. The addresses are sorted, and there is at least one. They are shared with
// the caller, who must not change them any more.
func (b *HostsBuilder) Add(hostname, domain string, addresses []netip.Addr) {
	merge(b.names, hostname, addresses)
	if domain == "" {
		merge(b.bare, hostname, addresses)
		b.single = appendPairs(b.single, hostname, addresses)
		return
	}
	b.domains = true
	full := hostname
	if joined, ok := join(hostname, domain); ok && joined != full {
		full = joined
		merge(b.names, full, addresses)
	}
	b.full = appendPairs(b.full, full, addresses)
}

// SetMachines sets the addresses that Directory.HasMachine reports. They are shared with the
// caller, who must not change them any more once the hosts are done.
func (b *HostsBuilder) SetMachines(all map[netip.Addr]struct{}) { b.machines = all }

// merge adds the addresses of one more port of that hostname.
func merge(names map[string]*entry, name string, addresses []netip.Addr) {
	have, ok := names[name]
	if !ok {
		names[name] = newEntry(addresses, nil)
		return
	}
	names[name] = newEntry(SortAddresses(slices.Concat(have.addresses(), addresses)), nil)
}

// Done returns the hosts. The builder must not be used any more.
func (b *HostsBuilder) Done() *Hosts {
	h := &Hosts{names: b.names, bare: b.bare, below: countDescendants(b.names), machines: b.machines}
	if b.domains {
		h.bareBelow = countDescendants(h.bare)
	} else {
		h.bare, h.bareBelow = h.names, h.below // the same: keep one
	}
	h.fullReverse = reverseIndex{}.edit(nil, b.full)
	h.bareReverse = reverseIndex{}.edit(nil, b.single)
	return h
}

// SortAddresses sorts in place, IPv4 first, and drops repetitions.
func SortAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
