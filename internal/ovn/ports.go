// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"
)

// ports is what the ports of a network give. Pictures of the network that
// differ in their DNS rows only share it.
type ports struct {
	all    []*Port
	guests []*Port // those bound to the local chassis
	byKey  map[uint64]*Port
	// datapaths are the tunnel keys of the switch: one, except while northd
	// replaces its Datapath_Binding.
	datapaths []uint32
	owners    map[netip.Addr]struct{}
	localport bool
	// names has every hostname, bare and with the port's domain; plain has the
	// bare ones of ports that have no domain.
	names, plain map[string]*entry
	// below and plainBelow are the trees of names and plain.
	below, plainBelow tree
	// fqdns and bare lead from addresses to hostnames of ports with and
	// without a domain.
	fqdns, bare reverse
}

// pipelineKey joins metadata and register 14.
func pipelineKey(datapath, port uint32) uint64 { return uint64(datapath)<<32 | uint64(port) }

// logicalPort is a row of Port_Binding or Logical_Switch_Port, or of both.
type logicalPort struct {
	name, kind       string
	datapath, key    uint32
	parent           string
	tag              uint16
	hostname, domain string
	addresses        []netip.Addr
	local, disabled  bool
}

// isGuest tells what has names and may ask: a VIF, a container or a virtual
// port, and no router, localnet or localport.
func isGuest(kind string) bool { return kind == "" || kind == "virtual" }

// portsBuilder collects the ports of one network.
type portsBuilder struct {
	network *Network
	out     *ports
	fqdns   []pair
	bare    []pair
	domains bool // a port has a domain
}

func newPortsBuilder(n *Network) *portsBuilder {
	return &portsBuilder{network: n, out: &ports{
		byKey:  make(map[uint64]*Port),
		owners: make(map[netip.Addr]struct{}),
		names:  make(map[string]*entry),
		plain:  make(map[string]*entry),
	}}
}

func (b *portsBuilder) add(l logicalPort) {
	for _, a := range l.addresses {
		b.out.owners[a] = struct{}{}
	}
	if l.kind == "localport" {
		b.out.localport = true
	}
	if !isGuest(l.kind) {
		return
	}
	p := &Port{
		Name: l.name, Type: l.kind,
		Network: b.network.ID, SwitchName: b.network.Name,
		DatapathKey: l.datapath, Key: l.key,
		Parent: l.parent, Tag: l.tag,
		Hostname: l.hostname, Domain: l.domain,
		Addresses: l.addresses,
	}
	b.out.all = append(b.out.all, p)
	if l.local {
		b.out.guests = append(b.out.guests, p)
	}
	if l.key != 0 {
		b.out.byKey[pipelineKey(l.datapath, l.key)] = p
	}
	// A port that is switched off has no name: nothing behind it answers.
	if l.disabled || l.hostname == "" || len(l.addresses) == 0 {
		return
	}
	merge(b.out.names, l.hostname, l.addresses)
	if l.domain == "" {
		merge(b.out.plain, l.hostname, l.addresses)
		b.bare = appendPairs(b.bare, l.hostname, l.addresses)
		return
	}
	b.domains = true
	full := l.hostname
	if joined, ok := join(l.hostname, l.domain); ok && joined != full {
		full = joined
		merge(b.out.names, full, l.addresses)
	}
	b.fqdns = appendPairs(b.fqdns, full, l.addresses)
}

// merge adds the addresses of one more port of that hostname. The slices of
// ports are not written to, since one port's are shared.
func merge(names map[string]*entry, name string, addresses []netip.Addr) {
	have, ok := names[name]
	if !ok {
		names[name] = newEntry(addresses, nil)
		return
	}
	names[name] = newEntry(sortAddresses(slices.Concat(have.addresses(), addresses)), nil)
}

func (b *portsBuilder) done() *ports {
	b.out.below = newTree(b.out.names)
	if b.domains {
		b.out.plainBelow = newTree(b.out.plain)
	} else {
		b.out.plain, b.out.plainBelow = b.out.names, b.out.below // the same: keep one
	}
	b.out.fqdns = reverse{}.edit(nil, b.fqdns)
	b.out.bare = reverse{}.edit(nil, b.bare)
	return b.out
}

// sortAddresses sorts in place, IPv4 first, and drops repetitions.
func sortAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
