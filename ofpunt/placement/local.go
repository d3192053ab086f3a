// SPDX-License-Identifier: Apache-2.0

package placement

import (
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

// localEntries returns the entry flows of a guest in front of any pipeline. A packet that is resumed, or
// finds no lease, goes on in the table of the entry flow as if that were not there.
//
// No flow in that table matches an IPv6 address. A lookup takes the fields by layers, and looks at
// ports only where the layers before them have matched (Open vSwitch's lib/classifier.h, "Staged
// Lookup"). So a flow with an IPv6 address and a port would have the datapath distinguish the
// packets to any port by their destination, unless the table has a prefix trie of those. The
// entry flows there take packets to the port, and solicitations, to AddressTable, whatever their
// address; and no other packet is compared with an address.
func (s *Service) localEntries(at Pipeline, g *Guest) []openflow.FlowMod {
	guard := openflow.SetField{Field: openflow.RegMasked(guardRegister, guardBit, guardBit)}
	sender := g.match(at.Kind)
	unguarded := append(sender[:len(sender):len(sender)], openflow.RegMasked(guardRegister, 0, guardBit))
	of := s.without(g.Left)
	matches, matches6, stripped6 := splitIPv6(slices.Concat(of.queries(), queriesTo(g.Addresses), of.neighbors(g)))
	return slices.Concat(
		s.entries(AddressTable, priorityAddress, sender, matches6, toPrivate),
		s.entries(at.Table, at.Priority, unguarded, stripped6, guard, openflow.Resubmit{Table: AddressTable}),
		s.entries(at.Table, at.Priority, unguarded, matches, guard, toPrivate))
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
