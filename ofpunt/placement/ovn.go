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
	// Owned reports whether a port of the switch has an address, which then is not ours to
	// answer ARP for. Nil is for none.
	Owned func(netip.Addr) bool
}

// PlanOVN places the punt in the pipeline of ovn-controller. dnsTable is the
// OpenFlow table of the stage ls_in_dns_lookup (ovn-northd(8)). The entry flows are in
// the one before: port security and ACLs have been applied there, and a packet that is
// resumed, or finds no lease, goes on to OVN's own DNS. They match the guest and not just
// its switch, since what enters a switch from a router, a localnet port or a tunnel
// carries the switch's metadata too. Load balancers have rewritten destinations by then,
// so there are matches for the original destination, too.
func PlanOVN(s *Service, dnsTable uint8, guests iter.Seq[Guest]) Plan {
	p := s.private(openflow.Resubmit{Table: dnsTable})
	queries := append(s.queries(), s.balanced()...)
	for g := range guests {
		asker := []openflow.Field{openflow.Metadata(uint64(g.Datapath)), openflow.Reg(RegInPort, g.Port)}
		p.Entry = append(p.Entry, s.entries(dnsTable-1, entryPriority, asker, queries, g.Owned, rateLimit(g.Meter)...)...)
	}
	return p
}
