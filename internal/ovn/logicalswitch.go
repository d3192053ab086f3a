// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// logicalSwitch is a row of Logical_Switch.
type logicalSwitch struct {
	problems
	name           string
	config, ids    string // dns_domain of other_config and of external_ids, as they stand
	domain         string // canonical, of the first of the two that can be read; "" for none
	ports, dnsRows []ovsdb.UUID
	forward        string // forwardKey of external_ids
}

func switchColumns() []rows.Column[logicalSwitch] {
	parse := func(id ovsdb.UUID, s *logicalSwitch) {
		bad := s.report(northboundName, tableSwitch, id, "dns_domain")
		if s.domain = parseDomainName(s.config, bad); s.domain == "" {
			s.domain = parseDomainName(s.ids, bad)
		}
	}
	return []rows.Column[logicalSwitch]{
		rows.String("name", func(s *logicalSwitch) *string { return &s.name }),
		rows.UUIDs("ports", func(s *logicalSwitch) *[]ovsdb.UUID { return &s.ports }),
		rows.Key("other_config", "dns_domain", func(s *logicalSwitch) *string { return &s.config }).Then(parse),
		rows.Key("external_ids", "dns_domain", func(s *logicalSwitch) *string { return &s.ids }).Then(parse),
		rows.Key("external_ids", forwardKey, func(s *logicalSwitch) *string { return &s.forward }),
		rows.UUIDs("dns_records", func(s *logicalSwitch) *[]ovsdb.UUID { return &s.dnsRows }),
	}
}

func (n *northbound) switchChanged(id ovsdb.UUID, old, next *logicalSwitch) {
	var oldPorts, nextPorts []ovsdb.UUID
	if old != nil {
		oldPorts = old.ports
		n.named.Remove(old.name, id)
		n.changes.name(old.name)
		for _, d := range old.dnsRows {
			n.dnsOf.Remove(d, id)
		}
	}
	if next != nil {
		nextPorts = next.ports
		n.named.Add(next.name, id, next)
		n.changes.name(next.name)
		for _, d := range next.dnsRows {
			n.dnsOf.Add(d, id, next)
		}
	}
	n.switchOf.Replace(id, oldPorts, nextPorts)
	n.changes.network(origin.Network(id), partPorts)
	n.changes.interest = true
	n.changes.node(id)
}
