// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type LogicalSwitch struct {
	problem.Set
	Name           string
	config, ids    string // dns_domain of other_config and external_ids
	domain         string // the first readable one of the two
	Ports, DNSRows []ovsdb.UUID
	forward        string // ovn.ForwardKey of external_ids
	egress         egress
}

func switchColumns() []rows.Column[LogicalSwitch] {
	parse := func(id ovsdb.UUID, s *LogicalSwitch) {
		bad := s.Report(NorthboundName, TableSwitch, id, "dns_domain")
		if s.domain = parseDomainName(s.config, bad); s.domain == "" {
			s.domain = parseDomainName(s.ids, bad)
		}
	}
	parseEgress := func(id ovsdb.UUID, s *LogicalSwitch) {
		s.egress.parse(TableSwitch, s.Name, s.Report(NorthboundName, TableSwitch, id, columnEgress))
	}
	return []rows.Column[LogicalSwitch]{
		rows.String("name", func(s *LogicalSwitch) *string { return &s.Name }).Then(parseEgress),
		rows.UUIDs("ports", func(s *LogicalSwitch) *[]ovsdb.UUID { return &s.Ports }),
		rows.Key("other_config", "dns_domain", func(s *LogicalSwitch) *string { return &s.config }).Then(parse),
		rows.Key("external_ids", "dns_domain", func(s *LogicalSwitch) *string { return &s.ids }).Then(parse),
		rows.Key("external_ids", ovn.ForwardKey, func(s *LogicalSwitch) *string { return &s.forward }),
		rows.Key(columnIDs, ovn.EgressKey, func(s *LogicalSwitch) *string { return &s.egress.text }).Then(parseEgress),
		rows.UUIDs("dns_records", func(s *LogicalSwitch) *[]ovsdb.UUID { return &s.DNSRows }),
	}
}

func (n *Northbound) switchChanged(id ovsdb.UUID, old, next *LogicalSwitch) {
	var oldPorts, nextPorts []ovsdb.UUID
	if old != nil {
		oldPorts = old.Ports
		n.named.Remove(old.Name, id)
		n.Changes.name(old.Name)
		for _, d := range old.DNSRows {
			n.dnsOf.Remove(d, id)
		}
	}
	if next != nil {
		nextPorts = next.Ports
		n.named.Add(next.Name, id, next)
		n.Changes.name(next.Name)
		for _, d := range next.DNSRows {
			n.dnsOf.Add(d, id, next)
		}
	}
	n.SwitchOf.Replace(id, oldPorts, nextPorts)
	n.Changes.network(origin.Network(id), PartPorts)
	n.Changes.Interest = true
	n.Changes.node(id)
}
