// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"
	"net/netip"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Kinds of placement on bridges without OVN.
const (
	// Neutron is the pipeline of Neutron's Open vSwitch agent.
	Neutron Kind = "neutron"
	// Table is a table of any bridge.
	Table Kind = "table"
)

// Where the entry flows stand in the pipeline of Neutron's agent: above all that
// it has in table 0, the highest being the metadata extension's at 200, which
// takes everything for 169.254.169.254 whatever its port.
const (
	NeutronTable    = 0
	NeutronPriority = 210
)

// The guard is a bit of a register that the pipelines are not known to use. An
// entry flow sets it and does not match where it is set, so that a packet can
// come back to the entry's own table and pass.
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
	// MAC is the only source address that is served, zero for any.
	MAC [6]byte
	// Owned reports the addresses that a port of the guest's network has. It
	// may be nil.
	Owned func(netip.Addr) bool
}

// PlanLocal places the punt in front of a pipeline that is not known: the entry
// flows stand in table at priority, and what is resumed or finds no lease goes
// on in that table as if they were not there.
func PlanLocal(s *Service, table uint8, priority uint16, guests iter.Seq[LocalGuest]) Plan {
	p := s.private(openflow.Resubmit{Table: table})
	what := s.queries()
	guard := openflow.SetField{Field: openflow.RegMasked(guardRegister, guardBit, guardBit)}
	for g := range guests {
		who := []openflow.Field{openflow.InPort(g.InPort), openflow.RegMasked(guardRegister, 0, guardBit)}
		if g.MAC != ([6]byte{}) {
			who = append(who, openflow.EthSrc(g.MAC))
		}
		p.Entry = append(p.Entry, s.entries(table, priority, who, what, g.Owned, append(limit(g.Meter), guard)...)...)
	}
	return p
}
