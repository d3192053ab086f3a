// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// SwitchPort is a row of Logical_Switch_Port. It has ExternalIDs only where Northbound is read alone.
type SwitchPort struct {
	PortRow
	ID       ovsdb.UUID
	DHCP     DHCPRows
	Disabled bool
}

func switchPortColumns(labelKeys func() []string) []rows.Column[SwitchPort] {
	row := func(p *SwitchPort) *PortRow { return &p.PortRow }
	all := []rows.Column[SwitchPort]{
		rows.String("name", func(p *SwitchPort) *string { return &p.Name }),
		rows.String("type", func(p *SwitchPort) *string { return &p.Type }),
		rows.UUID("dhcpv4_options", func(p *SwitchPort) *ovsdb.UUID { return &p.DHCP.V4 }),
		rows.UUID("dhcpv6_options", func(p *SwitchPort) *ovsdb.UUID { return &p.DHCP.V6 }),
		rows.Custom("enabled", func(_ ovsdb.UUID, p *SwitchPort, row *ovsdb.Row, col int) bool {
			was := p.Disabled
			p.Disabled = row.Len(col) > 0 && !row.Bool(col)
			return p.Disabled != was
		}),
		rows.String("parent_name", func(p *SwitchPort) *string { return &p.Parent }),
		rows.Integer("tag", func(p *SwitchPort) *uint16 { return &p.Tag }),
	}
	for _, c := range append(portColumns(labelKeys),
		rareColumn(rows.Key("options", "router-port", func(r *RareColumns) *string { return &r.Peer })),
		portAddresses("addresses", parseSwitchPortAddresses),
		rareColumn(rows.String("dynamic_addresses", func(r *RareColumns) *string { return &r.dynamic })).
			Then(func(id ovsdb.UUID, p *PortRow) { parseSwitchPortAddresses(id, p, p.elements()) }),
		rareColumn(rows.Key(columnIDs, ovn.EgressKey, func(r *RareColumns) *string { return &r.egress.text })).
			Then(func(id ovsdb.UUID, p *PortRow) {
				p.editRare(func(r *RareColumns) { r.egress.parse(TableSwitchPort, p.Name, p.report(id, columnEgress)) })
			}),
	) {
		all = append(all, rows.Within(c, row))
	}
	return all
}

// parseSwitchPortAddresses adds the addresses that northd has chosen (dynamic_addresses) if the elements ask
// for some.
func parseSwitchPortAddresses(id ovsdb.UUID, p *PortRow, elements []string) {
	report := func(column string) names.Report { return p.report(id, column) }
	configured := parsePortAddresses(elements, report("addresses"))
	p.Addresses, p.MACs = configured.Static, configured.MACs
	if assigned := parsePortAddresses([]string{p.rare().dynamic}, report("dynamic_addresses")); configured.dynamic {
		p.Addresses = names.SortAddresses(slices.Concat(configured.Static, assigned.Static))
		p.MACs = slices.Concat(configured.MACs, assigned.MACs)
	}
}

func (n *Northbound) portChanged(id ovsdb.UUID, old, next *SwitchPort) {
	if old != nil {
		n.PortNamed.Remove(old.Name, old)
		n.dhcpOf.Remove(old.DHCP.V4, id)
		n.dhcpOf.Remove(old.DHCP.V6, id)
		n.PortGroups.forget(id)
		if old.Type == ovn.TypeRouter {
			n.attached.Remove(old.Peer(), id)
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
			n.attached.Add(next.Peer(), id, next)
		}
		n.touchPort(next)
	}
}

func (n *Northbound) touchPort(p *SwitchPort) {
	n.markPort(p.ID, PartPorts)
	if p.Type == ovn.TypeRouter || p.Type == ovn.TypeLocalnet {
		n.Changes.node(n.SwitchOf[p.ID])
	}
	n.Changes.Interest = true
}

// switchChanged later notes the network of a port whose switch has not been read yet.
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
