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
	// MAC is the only source address that is served, zero for any.
	MAC [6]byte
	// Owned reports whether a port of the guest's network has an address, which then is
	// not ours to answer ARP for. Nil is for none.
	Owned func(netip.Addr) bool
}

// PlanLocal places the punt in front of any pipeline: the entry flows are in table at
// priority, and a packet that is resumed, or finds no lease, goes on in that table as if
// they were not there.
func PlanLocal(s *Service, table uint8, priority uint16, guests iter.Seq[LocalGuest]) Plan {
	p := s.private(openflow.Resubmit{Table: table})
	queries := s.queries()
	guard := openflow.SetField{Field: openflow.RegMasked(guardRegister, guardBit, guardBit)}
	for g := range guests {
		asker := []openflow.Field{openflow.InPort(g.InPort), openflow.RegMasked(guardRegister, 0, guardBit)}
		if g.MAC != ([6]byte{}) {
			asker = append(asker, openflow.EthSrc(g.MAC))
		}
		matches := slices.Concat(queries, queriesTo(g.Addresses), s.neighbors(g.Addresses, g.Owned))
		p.Entry = append(p.Entry, s.entries(table, priority, asker, matches, append(rateLimit(g.Meter), guard)...)...)
	}
	return p
}
