// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// binding is a row of Port_Binding.
type binding struct {
	problems
	name, kind string // logical_port and type
	owner      string // external_ids:neutron:device_owner
	function   string // options:is-nf
	datapath   ovsdb.UUID
	chassis    ovsdb.UUID
	additional []ovsdb.UUID // additional_chassis: they have it too while it migrates
	requested  ovsdb.UUID   // requested_chassis: it is to have the port
	key        uint32       // tunnel key
	tag        uint16       // VLAN of a container, or of a localnet port
	etherType  string       // options:ethtype, of the tags of a localnet port
	parent     string       // port of the container's VM
	peer       string       // of a patch port: the port at its other end
	hostname   string       // options:hostname as it stands
	canonical  string       // of hostname
	mac        []string
	addresses  addresses   // of mac
	ids        []rows.Pair // external_ids, of the keys that labels are asked for
}

func bindingColumns(labelKeys func() []string) []rows.Column[binding] {
	return []rows.Column[binding]{
		rows.String("logical_port", func(p *binding) *string { return &p.name }),
		rows.UUID("datapath", func(p *binding) *ovsdb.UUID { return &p.datapath }),
		rows.Integer("tunnel_key", func(p *binding) *uint32 { return &p.key }),
		rows.String("type", func(p *binding) *string { return &p.kind }),
		rows.String("parent_port", func(p *binding) *string { return &p.parent }),
		rows.Integer("tag", func(p *binding) *uint16 { return &p.tag }),
		rows.Strings("mac", func(p *binding) *[]string { return &p.mac }).Then(func(id ovsdb.UUID, p *binding) {
			p.addresses = parsePortAddresses(p.mac, p.report(southboundName, tablePort, id, "mac"))
		}),
		rows.Key("options", "hostname", func(p *binding) *string { return &p.hostname }).Then(func(id ovsdb.UUID, p *binding) {
			p.canonical = parseHostname(p.hostname, p.report(southboundName, tablePort, id, "options:hostname"))
		}),
		rows.Key("options", "ethtype", func(p *binding) *string { return &p.etherType }),
		rows.Key("options", "peer", func(p *binding) *string { return &p.peer }),
		rows.Key("options", functionKey, func(p *binding) *string { return &p.function }),
		rows.UUID("chassis", func(p *binding) *ovsdb.UUID { return &p.chassis }),
		rows.Key("external_ids", ownerKey, func(p *binding) *string { return &p.owner }),
		rows.Keys("external_ids", labelKeys, func(p *binding) *[]rows.Pair { return &p.ids }),
		rows.UUIDs("additional_chassis", func(p *binding) *[]ovsdb.UUID { return &p.additional }).Optional(), // from OVN 22.06 on
		rows.UUID("requested_chassis", func(p *binding) *ovsdb.UUID { return &p.requested }).Optional(),      // from OVN 21.06 on
	}
}

func (p *binding) effectiveKind() string { return effectiveKind(p.kind, p.owner, p.function) }

// iface returns the logical port whose interface the guest has, as Port.iface does.
func (p *binding) iface() string { return ifaceOf(p.name, p.parent, p.tag) }

// isOn reports whether a chassis has the port: alone, or with others while it migrates
// (ovn-sb(5), Port_Binding additional_chassis).
func (p *binding) isOn(chassis ovsdb.UUID) bool {
	return chassis != (ovsdb.UUID{}) && (p.chassis == chassis || slices.Contains(p.additional, chassis))
}

// isHere reports whether the local chassis has the port. A guest is served at both ends
// of a migration, as each switch punts what comes from its own port only.
func (s *southbound) isHere(p *binding) bool { return p.isOn(s.self) }

func (s *southbound) portChanged(id ovsdb.UUID, old, next *binding) {
	s.changes.interest = s.changes.interest || (s.isOfInterest(old) || s.isOfInterest(next)) && !old.interestsAs(next)
	if old != nil {
		s.portNamed.Remove(old.name, old)
		s.portsOf.Remove(old.datapath, id)
		s.unlinkPort(id, old)
		s.markPort(old)
		if next != nil && s.isHere(old) && !s.isHere(next) && next.requested == s.self {
			s.changes.released = append(s.changes.released, next.name)
		}
	}
	if next != nil {
		s.portNamed[next.name] = next
		s.portsOf.Add(next.datapath, id, next)
		s.linkPort(id, next)
		s.markPort(next)
	}
}

// markPort notes a change of the network of a port.
func (s *southbound) markPort(p *binding) {
	s.markDatapath(p.datapath, partPorts)
	s.markRouterPort(p)
}

// isOfInterest reports whether conditions depend on a port, which may be nil: a guest here or one that was, which is
// read by its name, and a port that joins networks.
func (s *southbound) isOfInterest(p *binding) bool {
	return p != nil && (s.isHere(p) || p.joins() || p.kind == kindLocalnet || s.isReadByName(p.name))
}

// interestsAs reports whether conditions depend on p in the same way as on another version of the row. Each may
// be nil.
func (p *binding) interestsAs(other *binding) bool {
	return p != nil && other != nil && p.name == other.name && p.effectiveKind() == other.effectiveKind() && p.kind == other.kind && p.owner == other.owner &&
		p.datapath == other.datapath && p.chassis == other.chassis && slices.Equal(p.additional, other.additional) && p.peer == other.peer
}
