// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// SwitchPort is a row of Logical_Switch_Port.
type SwitchPort struct {
	problem.Set
	ID          ovsdb.UUID
	Name, Type  string // name and type
	hostname    string // options:hostname as it stands
	Canonical   string // of hostname
	addresses   []string
	dynamic     string    // dynamic_addresses
	Configured  Addresses // of addresses
	assigned    Addresses // of dynamic: those that northd has chosen
	DHCP        DHCPRows
	Disabled    bool
	Parent      string      // port of a container's VM
	Tag         uint16      // VLAN of a container
	RouterPort  string      // the router's, of a port of type router
	Owner       string      // external_ids:neutron:device_owner
	Function    string      // options:is-nf
	ExternalIDs []rows.Pair // external_ids, of the keys that labels are asked for; without Southbound
}

func switchPortColumns(labelKeys func() []string) []rows.Column[SwitchPort] {
	return []rows.Column[SwitchPort]{
		rows.String("name", func(p *SwitchPort) *string { return &p.Name }),
		rows.String("type", func(p *SwitchPort) *string { return &p.Type }),
		rows.Key("options", "hostname", func(p *SwitchPort) *string { return &p.hostname }).Then(func(id ovsdb.UUID, p *SwitchPort) {
			p.Canonical = parseHostname(p.hostname, p.Report(NorthboundName, TableSwitchPort, id, "options:hostname"))
		}),
		rows.Key("options", ovn.FunctionKey, func(p *SwitchPort) *string { return &p.Function }),
		rows.Key("options", "router-port", func(p *SwitchPort) *string { return &p.RouterPort }),
		rows.Strings("addresses", func(p *SwitchPort) *[]string { return &p.addresses }).Then(func(id ovsdb.UUID, p *SwitchPort) {
			p.Configured = parsePortAddresses(p.addresses, p.Report(NorthboundName, TableSwitchPort, id, "addresses"))
		}),
		rows.String("dynamic_addresses", func(p *SwitchPort) *string { return &p.dynamic }).Then(func(id ovsdb.UUID, p *SwitchPort) {
			p.assigned = parsePortAddresses([]string{p.dynamic}, p.Report(NorthboundName, TableSwitchPort, id, "dynamic_addresses"))
		}),
		rows.UUID("dhcpv4_options", func(p *SwitchPort) *ovsdb.UUID { return &p.DHCP.V4 }),
		rows.UUID("dhcpv6_options", func(p *SwitchPort) *ovsdb.UUID { return &p.DHCP.V6 }),
		rows.Custom("enabled", func(_ ovsdb.UUID, p *SwitchPort, row *ovsdb.Row, col int) bool {
			was := p.Disabled
			p.Disabled = row.Len(col) > 0 && !row.Bool(col)
			return p.Disabled != was
		}),
		rows.String("parent_name", func(p *SwitchPort) *string { return &p.Parent }),
		rows.Integer("tag", func(p *SwitchPort) *uint16 { return &p.Tag }),
		rows.Key("external_ids", ovn.OwnerKey, func(p *SwitchPort) *string { return &p.Owner }),
		rows.Keys("external_ids", labelKeys, func(p *SwitchPort) *[]rows.Pair { return &p.ExternalIDs }),
	}
}

// AllAddresses returns the addresses of the port, with those that northd has chosen if it
// is to choose some.
func (p *SwitchPort) AllAddresses() []netip.Addr {
	if !p.Configured.dynamic {
		return p.Configured.Static
	}
	return names.SortAddresses(slices.Concat(p.Configured.Static, p.assigned.Static))
}

// AllMACs returns the hardware addresses of the port, with the one that northd has chosen if
// it is to choose one.
func (p *SwitchPort) AllMACs() []origin.MAC {
	if !p.Configured.dynamic {
		return p.Configured.MACs
	}
	return slices.Concat(p.Configured.MACs, p.assigned.MACs)
}

func (n *Northbound) portChanged(id ovsdb.UUID, old, next *SwitchPort) {
	if old != nil {
		n.PortNamed.Remove(old.Name, old)
		n.dhcpOf.Remove(old.DHCP.V4, id)
		n.dhcpOf.Remove(old.DHCP.V6, id)
		if old.Type == ovn.TypeRouter {
			n.attached.Remove(old.RouterPort, id)
		}
		n.touchPort(old)
	}
	if next != nil {
		next.ID = id
		n.PortNamed[next.Name] = next
		for _, row := range []ovsdb.UUID{next.DHCP.V4, next.DHCP.V6} {
			if row != (ovsdb.UUID{}) {
				n.dhcpOf.Add(row, id, next)
			}
		}
		if next.Type == ovn.TypeRouter {
			n.attached.Add(next.RouterPort, id, next)
		}
		n.touchPort(next)
	}
}

// touchPort marks what depends on a port that has changed: its network, the conditions, and
// the links of its node.
func (n *Northbound) touchPort(p *SwitchPort) {
	n.markPort(p.ID, PartPorts)
	if p.Type == ovn.TypeRouter || p.Type == ovn.TypeLocalnet {
		n.Changes.node(n.SwitchOf[p.ID])
	}
	n.Changes.Interest = true
}

// markPort notes a change of the network of a port. One whose switch is not known yet is
// noted when that comes.
func (n *Northbound) markPort(id ovsdb.UUID, of Part) {
	if s, ok := n.SwitchOf[id]; ok {
		n.Changes.network(origin.Network(s), of)
	}
}

func (n *Northbound) MarkPortNamed(name string) {
	if p := n.PortNamed[name]; p != nil {
		n.markPort(p.ID, PartPorts)
	}
}
