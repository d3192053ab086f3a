// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// EntryPriority is above all that OVN has in the stage before the DNS lookup,
// where its own flows end at 100.
const EntryPriority = 200

// ovnEntries returns the entry flows of a guest in the pipeline of ovn-controller. They are in the table
// before the stage ls_in_dns_lookup (ovn-northd(8)): port security and ACLs have been applied there, and a
// packet that is resumed, or finds no lease, goes on to OVN's own DNS. They match the guest and not just
// its switch, since what enters a switch from a router, a localnet port or a tunnel carries the switch's
// metadata too. Of what comes by a localnet port they match only the addresses of external ports that this
// chassis acts for. Load balancers have rewritten destinations before this table, so there are matches for the
// original destination, too.
func (s *Service) ovnEntries(at Pipeline, g *Guest) []openflow.FlowMod {
	of := s.without(g.Left)
	matches := slices.Concat(of.queries(), of.balanced(), queriesTo(g.Addresses), balancedTo(g.Addresses), of.neighbors(g))
	return s.entries(at.Table-1, EntryPriority, g.match(OVN), matches, toPrivate)
}
