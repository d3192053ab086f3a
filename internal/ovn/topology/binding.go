// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type PortBinding struct {
	PortRow
	Datapath  ovsdb.UUID
	Chassis   ovsdb.UUID
	Requested ovsdb.UUID // OVN is about to bind the port there
}

func bindingColumns(labelKeys func() []string) []rows.Column[PortBinding] {
	row := func(p *PortBinding) *PortRow { return &p.PortRow }
	parse := func(id ovsdb.UUID, p *PortRow, elements []string) {
		of := parsePortAddresses(elements, p.report(id, "mac"))
		p.Addresses, p.MACs = of.Static, of.MACs
	}
	all := []rows.Column[PortBinding]{
		rows.String("logical_port", func(p *PortBinding) *string { return &p.Name }),
		rows.UUID("datapath", func(p *PortBinding) *ovsdb.UUID { return &p.Datapath }),
		rows.Integer("tunnel_key", func(p *PortBinding) *uint32 { return &p.Key }),
		rows.String("type", func(p *PortBinding) *string { return &p.Type }),
		rows.String("parent_port", func(p *PortBinding) *string { return &p.Parent }),
		rows.Integer("tag", func(p *PortBinding) *uint16 { return &p.Tag }),
		rows.UUID("chassis", func(p *PortBinding) *ovsdb.UUID { return &p.Chassis }),
		rows.UUID("requested_chassis", func(p *PortBinding) *ovsdb.UUID { return &p.Requested }).Optional(), // from OVN 21.06 on
	}
	for _, c := range append(portColumns(labelKeys),
		portAddresses("mac", parse),
		rareColumn(rows.Key("options", "ethtype", func(r *RareColumns) *string { return &r.etherType })),
		rareColumn(rows.Key("options", "peer", func(r *RareColumns) *string { return &r.Peer })),
		rareColumn(rows.UUIDs("additional_chassis", func(r *RareColumns) *[]ovsdb.UUID { return &r.Additional }).Optional()), // from OVN 22.06 on
	) {
		all = append(all, rows.Within(c, row))
	}
	return all
}

func (p *PortBinding) Additional() []ovsdb.UUID { return p.rare().Additional }

// HasServiceTag reports whether the tags of a localnet port are service tags (IEEE 802.1ad).
func (p *PortBinding) HasServiceTag() bool { return p.rare().etherType == "802.11ad" }

// IsOn reports whether a chassis has the port, also with others during a migration (ovn-sb(5), Port_Binding
// additional_chassis).
func (p *PortBinding) IsOn(chassis ovsdb.UUID) bool {
	return chassis != (ovsdb.UUID{}) && (p.Chassis == chassis || slices.Contains(p.Additional(), chassis))
}

// IsHere reports whether the local chassis has the port. Both ends of a migration serve a guest, because each
// switch punts only the queries from its own port.
func (s *Southbound) IsHere(p *PortBinding) bool { return p.IsOn(s.Self) }

// IsArriving reports whether a port is on its way to the local chassis by live migration: until the management system ends the
// migration, another chassis has the port, and this one has it in addition (ovn-nb(5), Logical_Switch_Port
// options:requested-chassis).
func (s *Southbound) IsArriving(p *PortBinding) bool { return s.IsHere(p) && p.Chassis != s.Self }

func (s *Southbound) portChanged(id ovsdb.UUID, old, next *PortBinding) {
	s.Changes.Interest = s.Changes.Interest || (s.isOfInterest(old) || s.isOfInterest(next)) && !old.interestsAs(next)
	if old != nil {
		s.PortNamed.Remove(old.Name, old)
		s.PortsOf.Remove(old.Datapath, id)
		s.PortGroups.forget(old.Name)
		s.unlinkPort(id, old)
		s.markPort(old)
		if next != nil && s.IsHere(old) && !s.IsHere(next) && next.Requested == s.Self {
			s.Changes.Released = append(s.Changes.Released, next.Name)
		}
	}
	if next != nil {
		s.PortNamed[next.Name] = next
		s.PortsOf.Add(next.Datapath, id, next)
		s.linkPort(id, next)
		s.markPort(next)
	}
}

func (s *Southbound) markPort(p *PortBinding) {
	s.markDatapath(p.Datapath, PartPorts)
	s.markRouterPort(p)
}

func (s *Southbound) markPortNamed(name string) {
	if p := s.PortNamed[name]; p != nil {
		s.markDatapath(p.Datapath, PartPorts)
	}
}

// isOfInterest reports whether conditions depend on a port, which may be nil.
func (s *Southbound) isOfInterest(p *PortBinding) bool {
	return p != nil && (s.IsHere(p) || p.joins() || p.Type == ovn.TypeLocalnet || s.IsReadByName(p.Name))
}

// interestsAs reports whether conditions depend on both versions in the same way. Both may be nil.
func (p *PortBinding) interestsAs(other *PortBinding) bool {
	return p != nil && other != nil && p.Name == other.Name && p.PortType() == other.PortType() && p.Type == other.Type && p.rare().owner == other.rare().owner &&
		p.Datapath == other.Datapath && p.Chassis == other.Chassis && slices.Equal(p.Additional(), other.Additional()) && p.Peer() == other.Peer()
}
