// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"
	"net/netip"
	"slices"

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

// EntryPriority is above all that OVN has in the stage before the DNS lookup,
// where its own flows end at 100.
const EntryPriority = 200

// Guest is one logical port whose packets are punted.
type Guest struct {
	// Datapath and Port are the tunnel keys of logical switch and port.
	Datapath, Port uint32
	// MAC is the only source address that is punted, zero for any.
	MAC [6]byte
	// Meter limits what the guest asks; 0 is none.
	Meter uint32
	// Addresses are resolver addresses of this guest, none of which is in
	// Service.Addresses.
	Addresses []netip.AddrPort
	// Left are addresses of Service.Addresses that a workload of the guest's network has. What
	// the guest sends there is not punted.
	Left []netip.Addr
	// Owned reports whether a port of the switch has an address, which then is not ours to
	// answer ARP for. Nil is for none.
	Owned func(netip.Addr) bool
}

// PlanOVN places the punt in the pipeline of ovn-controller. dnsTable is the
// OpenFlow table of the stage ls_in_dns_lookup (ovn-northd(8)). The entry flows are in
// the one before: port security and ACLs have been applied there, and a packet that is
// resumed, or finds no lease, goes on to OVN's own DNS. They match the guest and not just
// its switch, since what enters a switch from a router, a localnet port or a tunnel
// carries the switch's metadata too. Of what comes by a localnet port they match only the
// addresses of external ports that this chassis acts for. Load balancers have rewritten destinations by then,
// so there are matches for the original destination, too.
func PlanOVN(s *Service, dnsTable uint8, guests iter.Seq[Guest]) Plan {
	p := s.private(dnsTable)
	for g := range guests {
		sender := []openflow.Field{openflow.Metadata(uint64(g.Datapath)), openflow.Reg(RegInPort, g.Port)}
		if g.MAC != ([6]byte{}) {
			sender = append(sender, openflow.EthSrc(g.MAC))
		}
		of := s.without(g.Left)
		matches := slices.Concat(of.queries(), of.balanced(), queriesTo(g.Addresses), balancedTo(g.Addresses), of.neighbors(g.Addresses, g.Owned))
		p.Guests = append(p.Guests, s.puntOf(sender, g.Meter, dnsTable)...)
		p.Guests = append(p.Guests, s.entries(dnsTable-1, EntryPriority, sender, matches, toPrivate)...)
	}
	return p
}
