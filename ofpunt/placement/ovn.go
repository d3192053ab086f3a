// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// EntryPriority is above OVN's flows in the table before the DNS stage, which end at 100.
const EntryPriority = 200

// ovnEntries returns a guest's entry flows in the table before ls_in_dns_lookup (ovn-northd(8)): after port security,
// ACLs and load balancers, so they match original destinations too. Packets that are resumed, or find no lease,
// continue to OVN's DNS. The flows match the guest, since packets from routers, localnet ports and tunnels have the
// switch's metadata too.
func (s *Service) ovnEntries(at Pipeline, g *Guest) []openflow.FlowMod {
	of := s.without(g.Left)
	matches := slices.Concat(of.queries(), of.balanced(), queriesTo(g.Addresses), balancedTo(g.Addresses), of.neighbors(g))
	return s.entries(at.Table-1, EntryPriority, g.match(OVN), matches, toPrivate)
}
