// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Table and priority of the entry flows in the pipeline of Neutron's agent: above all
// that it has in table 0. The highest of those is the metadata extension's at 200, which
// matches everything for 169.254.169.254, whatever its port.
const (
	NeutronTable    = 0
	NeutronPriority = 210
)

// The guard is a bit of a register that the pipelines are not known to use. An entry flow
// sets it, and does not match where it is set. So a packet that comes back to the table of
// the entry flow passes it.
const (
	guardRegister = 15
	guardBit      = 1 << 31
)

// LocalGuest is one port of the bridge whose packets are punted.
type LocalGuest struct {
	// InPort is the OpenFlow port.
	InPort uint32
	// Meter limits what the guest asks; 0 is none.
	Meter uint32
	// Addresses are resolver addresses of this guest, none of which is in
	// Service.Addresses.
	Addresses []netip.AddrPort
	// Left are addresses of Service.Addresses that a workload of the guest's network has. What
	// the guest sends there is not punted.
	Left []netip.Addr
	// MAC is the only source address that is served, zero for any.
	MAC [6]byte
	// Owned reports whether a port of the guest's network has an address, which then is
	// not ours to answer ARP for. Nil is for none.
	Owned func(netip.Addr) bool
}

// PlanLocal places the punt in front of any pipeline: the entry flows are in table at
// priority, and a packet that is resumed, or finds no lease, goes on in that table as if
// they were not there.
//
// No flow in table matches an IPv6 address. A lookup takes the fields by layers, and looks at
// ports only where what is before them has matched (Open vSwitch's lib/classifier.h, "Staged
// Lookup"). So a flow with an IPv6 address and a port would have the datapath distinguish the
// packets to any port by their destination, unless the table has a prefix trie of those. The
// entry flows in table take what is for the port, or is a solicitation, to AddressTable,
// whatever its address; and no other packet is compared with an address. The flow back stands in
// AddressTable even where nothing leads there, so that a plan has the same private flows always.
func PlanLocal(s *Service, table uint8, priority uint16, guests iter.Seq[LocalGuest]) Plan {
	p := s.private(table)
	p.Private = append(p.Private, s.flow(AddressTable, PriorityOnward, openflow.NewMatch(), openflow.Resubmit{Table: table}))
	guard := openflow.SetField{Field: openflow.RegMasked(guardRegister, guardBit, guardBit)}
	for g := range guests {
		sender := []openflow.Field{openflow.InPort(g.InPort)}
		if g.MAC != ([6]byte{}) {
			sender = append(sender, openflow.EthSrc(g.MAC))
		}
		unguarded := append(sender[:len(sender):len(sender)], openflow.RegMasked(guardRegister, 0, guardBit))
		of := s.without(g.Left)
		matches, matches6, stripped6 := splitIPv6(slices.Concat(of.queries(), queriesTo(g.Addresses), of.neighbors(g.Addresses, g.Owned)))
		p.Guests = append(p.Guests, s.puntOf(sender, g.Meter, table)...)
		p.Guests = append(p.Guests, s.entries(AddressTable, priorityAddress, sender, matches6, toPrivate)...)
		p.Guests = append(p.Guests, s.entries(table, priority, unguarded, stripped6, guard, openflow.Resubmit{Table: AddressTable})...)
		p.Guests = append(p.Guests, s.entries(table, priority, unguarded, matches, guard, toPrivate)...)
	}
	return p
}

// splitIPv6 returns the matches without an IPv6 address, those with one, and what the latter are
// without the address, each once.
func splitIPv6(matches [][]openflow.Field) (without, with, stripped [][]openflow.Field) {
	for _, m := range matches {
		rest := slices.DeleteFunc(slices.Clone(m), func(f openflow.Field) bool {
			return f.Name() == "ipv6_dst" || f.Name() == "nd_target"
		})
		if len(rest) == len(m) {
			without = append(without, m)
			continue
		}
		with = append(with, m)
		if !slices.ContainsFunc(stripped, func(s []openflow.Field) bool { return slices.Equal(s, rest) }) {
			stripped = append(stripped, rest)
		}
	}
	return without, with, stripped
}
