// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// PortBinding is a row of Port_Binding.
type PortBinding struct {
	problem.Set
	Name, Type  string // logical_port and type
	owner       string // external_ids:neutron:device_owner
	function    string // options:is-nf
	Datapath    ovsdb.UUID
	Chassis     ovsdb.UUID
	Additional  []ovsdb.UUID // additional_chassis: they have it too while it migrates
	Requested   ovsdb.UUID   // requested_chassis: it is to have the port
	Key         uint32       // tunnel key
	Tag         uint16       // VLAN of a container, or of a localnet port
	EtherType   string       // options:ethtype, of the tags of a localnet port
	Parent      string       // port of the container's VM
	Peer        string       // of a patch port: the port at its other end
	hostname    string       // options:hostname as it stands
	Canonical   string       // of hostname
	mac         []string
	Addresses   Addresses   // of mac
	ExternalIDs []rows.Pair // external_ids, of the keys that labels are asked for
}

func bindingColumns(labelKeys func() []string) []rows.Column[PortBinding] {
	return []rows.Column[PortBinding]{
		rows.String("logical_port", func(p *PortBinding) *string { return &p.Name }),
		rows.UUID("datapath", func(p *PortBinding) *ovsdb.UUID { return &p.Datapath }),
		rows.Integer("tunnel_key", func(p *PortBinding) *uint32 { return &p.Key }),
		rows.String("type", func(p *PortBinding) *string { return &p.Type }),
		rows.String("parent_port", func(p *PortBinding) *string { return &p.Parent }),
		rows.Integer("tag", func(p *PortBinding) *uint16 { return &p.Tag }),
		rows.Strings("mac", func(p *PortBinding) *[]string { return &p.mac }).Then(func(id ovsdb.UUID, p *PortBinding) {
			p.Addresses = parsePortAddresses(p.mac, p.Report(SouthboundName, TablePort, id, "mac"))
		}),
		rows.Key("options", "hostname", func(p *PortBinding) *string { return &p.hostname }).Then(func(id ovsdb.UUID, p *PortBinding) {
			p.Canonical = parseHostname(p.hostname, p.Report(SouthboundName, TablePort, id, "options:hostname"))
		}),
		rows.Key("options", "ethtype", func(p *PortBinding) *string { return &p.EtherType }),
		rows.Key("options", "peer", func(p *PortBinding) *string { return &p.Peer }),
		rows.Key("options", ovn.FunctionKey, func(p *PortBinding) *string { return &p.function }),
		rows.UUID("chassis", func(p *PortBinding) *ovsdb.UUID { return &p.Chassis }),
		rows.Key("external_ids", ovn.OwnerKey, func(p *PortBinding) *string { return &p.owner }),
		rows.Keys("external_ids", labelKeys, func(p *PortBinding) *[]rows.Pair { return &p.ExternalIDs }),
		rows.UUIDs("additional_chassis", func(p *PortBinding) *[]ovsdb.UUID { return &p.Additional }).Optional(), // from OVN 22.06 on
		rows.UUID("requested_chassis", func(p *PortBinding) *ovsdb.UUID { return &p.Requested }).Optional(),      // from OVN 21.06 on
	}
}

func (p *PortBinding) PortType() string { return ovn.PortType(p.Type, p.owner, p.function) }

// Interface returns the logical port whose interface the guest has, as Port.iface does.
func (p *PortBinding) Interface() string { return ovn.InterfaceOf(p.Name, p.Parent, p.Tag) }

// IsOn reports whether a chassis has the port: alone, or with others while it migrates
// (ovn-sb(5), Port_Binding additional_chassis).
func (p *PortBinding) IsOn(chassis ovsdb.UUID) bool {
	return chassis != (ovsdb.UUID{}) && (p.Chassis == chassis || slices.Contains(p.Additional, chassis))
}

// IsHere reports whether the local chassis has the port. A guest is served at both ends
// of a migration, as each switch punts what comes from its own port only.
func (s *Southbound) IsHere(p *PortBinding) bool { return p.IsOn(s.Self) }

func (s *Southbound) portChanged(id ovsdb.UUID, old, next *PortBinding) {
	s.Changes.Interest = s.Changes.Interest || (s.isOfInterest(old) || s.isOfInterest(next)) && !old.interestsAs(next)
	if old != nil {
		s.PortNamed.Remove(old.Name, old)
		s.PortsOf.Remove(old.Datapath, id)
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

// markPort notes a change of the network of a port.
func (s *Southbound) markPort(p *PortBinding) {
	s.markDatapath(p.Datapath, PartPorts)
	s.markRouterPort(p)
}

// isOfInterest reports whether conditions depend on a port, which may be nil: a guest here or one that was, which is
// read by its name, and a port that joins networks.
func (s *Southbound) isOfInterest(p *PortBinding) bool {
	return p != nil && (s.IsHere(p) || p.joins() || p.Type == ovn.TypeLocalnet || s.IsReadByName(p.Name))
}

// interestsAs reports whether conditions depend on p in the same way as on another version of the row. Each may
// be nil.
func (p *PortBinding) interestsAs(other *PortBinding) bool {
	return p != nil && other != nil && p.Name == other.Name && p.PortType() == other.PortType() && p.Type == other.Type && p.owner == other.owner &&
		p.Datapath == other.Datapath && p.Chassis == other.Chassis && slices.Equal(p.Additional, other.Additional) && p.Peer == other.Peer
}
