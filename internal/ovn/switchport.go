// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// switchPort is a row of Logical_Switch_Port.
type switchPort struct {
	problems
	id         ovsdb.UUID
	name, kind string // name and type
	hostname   string // options:hostname as it stands
	canonical  string // of hostname
	addresses  []string
	dynamic    string    // dynamic_addresses
	configured addresses // of addresses
	assigned   addresses // of dynamic: those that northd has chosen
	dhcp       dhcpRows
	disabled   bool
	parent     string      // port of a container's VM
	tag        uint16      // VLAN of a container
	routerPort string      // the router's, of a port of type router
	owner      string      // external_ids:neutron:device_owner
	function   string      // options:is-nf
	ids        []rows.Pair // external_ids, of the keys that labels are asked for; without Southbound
}

func switchPortColumns(labelKeys func() []string) []rows.Column[switchPort] {
	return []rows.Column[switchPort]{
		rows.String("name", func(p *switchPort) *string { return &p.name }),
		rows.String("type", func(p *switchPort) *string { return &p.kind }),
		rows.Key("options", "hostname", func(p *switchPort) *string { return &p.hostname }).Then(func(id ovsdb.UUID, p *switchPort) {
			p.canonical = parseHostname(p.hostname, p.report(northboundName, tableSwitchPort, id, "options:hostname"))
		}),
		rows.Key("options", functionKey, func(p *switchPort) *string { return &p.function }),
		rows.Key("options", "router-port", func(p *switchPort) *string { return &p.routerPort }),
		rows.Strings("addresses", func(p *switchPort) *[]string { return &p.addresses }).Then(func(id ovsdb.UUID, p *switchPort) {
			p.configured = parsePortAddresses(p.addresses, p.report(northboundName, tableSwitchPort, id, "addresses"))
		}),
		rows.String("dynamic_addresses", func(p *switchPort) *string { return &p.dynamic }).Then(func(id ovsdb.UUID, p *switchPort) {
			p.assigned = parsePortAddresses([]string{p.dynamic}, p.report(northboundName, tableSwitchPort, id, "dynamic_addresses"))
		}),
		rows.UUID("dhcpv4_options", func(p *switchPort) *ovsdb.UUID { return &p.dhcp.v4 }),
		rows.UUID("dhcpv6_options", func(p *switchPort) *ovsdb.UUID { return &p.dhcp.v6 }),
		rows.Custom("enabled", func(_ ovsdb.UUID, p *switchPort, row *ovsdb.Row, col int) bool {
			was := p.disabled
			p.disabled = row.Len(col) > 0 && !row.Bool(col)
			return p.disabled != was
		}),
		rows.String("parent_name", func(p *switchPort) *string { return &p.parent }),
		rows.Integer("tag", func(p *switchPort) *uint16 { return &p.tag }),
		rows.Key("external_ids", ownerKey, func(p *switchPort) *string { return &p.owner }),
		rows.Keys("external_ids", labelKeys, func(p *switchPort) *[]rows.Pair { return &p.ids }),
	}
}

// allAddresses returns the addresses of the port, with those that northd has chosen if it
// is to choose some.
func (p *switchPort) allAddresses() []netip.Addr {
	if !p.configured.dynamic {
		return p.configured.static
	}
	return names.SortAddresses(slices.Concat(p.configured.static, p.assigned.static))
}

// allMACs returns the hardware addresses of the port, with the one that northd has chosen if
// it is to choose one.
func (p *switchPort) allMACs() []origin.MAC {
	if !p.configured.dynamic {
		return p.configured.macs
	}
	return slices.Concat(p.configured.macs, p.assigned.macs)
}

func (n *northbound) portChanged(id ovsdb.UUID, old, next *switchPort) {
	if old != nil {
		n.portNamed.Remove(old.name, old)
		n.dhcpOf.Remove(old.dhcp.v4, id)
		n.dhcpOf.Remove(old.dhcp.v6, id)
		if old.kind == kindRouter {
			n.attached.Remove(old.routerPort, id)
		}
		n.touchPort(old)
	}
	if next != nil {
		next.id = id
		n.portNamed[next.name] = next
		for _, row := range []ovsdb.UUID{next.dhcp.v4, next.dhcp.v6} {
			if row != (ovsdb.UUID{}) {
				n.dhcpOf.Add(row, id, next)
			}
		}
		if next.kind == kindRouter {
			n.attached.Add(next.routerPort, id, next)
		}
		n.touchPort(next)
	}
}

// touchPort marks what depends on a port that has changed: its network, the conditions, and
// the links of its node.
func (n *northbound) touchPort(p *switchPort) {
	n.markPort(p.id, partPorts)
	if p.kind == kindRouter || p.kind == kindLocalnet {
		n.changes.node(n.switchOf[p.id])
	}
	n.changes.interest = true
}

// markPort notes a change of the network of a port. One whose switch is not known yet is
// noted when that comes.
func (n *northbound) markPort(id ovsdb.UUID, of part) {
	if s, ok := n.switchOf[id]; ok {
		n.changes.network(origin.Network(s), of)
	}
}

func (n *northbound) markPortNamed(name string) {
	if p := n.portNamed[name]; p != nil {
		n.markPort(p.id, partPorts)
	}
}
