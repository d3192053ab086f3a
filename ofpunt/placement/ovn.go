// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"
	"net/netip"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Registers of OVN's pipeline (ovn-architecture(7), "logical input port field";
// OVN's include/ovn/logical-fields.h).
const (
	// RegInPort holds the tunnel key of the logical input port.
	RegInPort = 14
	// RegZone holds the conntrack zone of the logical input port.
	RegZone = 13
)

// entryPriority is above all that OVN has in the stage before the DNS lookup,
// where its own flows end at 100.
const entryPriority = 200

// Guest is one logical port whose packets are punted.
type Guest struct {
	// Datapath and Port are the tunnel keys of logical switch and port.
	Datapath, Port uint32
	// Meter limits what the guest asks; 0 is none.
	Meter uint32
	// Owned reports the addresses that a port of the switch has: nobody else
	// answers for those. It may be nil.
	Owned func(netip.Addr) bool
}

// PlanOVN places the punt in the pipeline of ovn-controller. dnsTable is the
// OpenFlow table of the stage ls_in_dns_lookup; the entry flows stand in the one
// before, so that port security and ACLs have been applied, and what is resumed
// or finds no lease meets OVN's own DNS. They match the guest and not just its
// switch, since what enters a switch from a router, a localnet port or a tunnel
// carries the switch's metadata too. Load balancers have rewritten destinations by then,
// so there are matches for where the guest has sent its query, too.
func PlanOVN(s *Service, dnsTable uint8, guests iter.Seq[Guest]) Plan {
	p := s.private(openflow.Resubmit{Table: dnsTable})
	what := append(s.queries(), s.balanced()...)
	for g := range guests {
		who := []openflow.Field{openflow.Metadata(uint64(g.Datapath)), openflow.Reg(RegInPort, g.Port)}
		p.Entry = append(p.Entry, s.entries(dnsTable-1, entryPriority, who, what, g.Owned, limit(g.Meter)...)...)
	}
	return p
}
