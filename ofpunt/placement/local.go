// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Entry flows precede all flows of Neutron's agent in table 0. The highest, the metadata extension's at 200, matches
// all packets to 169.254.169.254.
const (
	NeutronTable    = 0
	NeutronPriority = 210
)

// The guard is a register bit that no known pipeline uses. Entry flows set the bit and match only packets without it,
// so that a packet that returns to their table continues.
const (
	guardRegister = 15
	guardBit      = 1 << 31
)

// localEntries returns a guest's entry flows in front of any pipeline.
//
// No flow in that table matches an IPv6 address. Open vSwitch looks at ports only where earlier fields have matched
// (lib/classifier.h, "Staged Lookup"). With address and port in one flow, the datapath would distinguish packets to
// any port by destination, unless the table has a prefix trie of IPv6 addresses. So AddressTable matches the address
// later.
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
