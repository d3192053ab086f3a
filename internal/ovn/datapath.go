// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// datapath is a row of Datapath_Binding: a logical switch or router.
type datapath struct {
	id      ovsdb.UUID
	key     uint32         // tunnel key
	name    string         // external_ids:name, that of the switch or router
	legacy  string         // external_ids:logical-switch, before OVN 25.09
	nbUUID  ovsdb.UUID     // the Northbound row, from OVN 25.09 on
	kind    string         // what nbUUID is: "logical-switch" or "logical-router"
	network origin.Network // the logical switch, zero for a router; derived from the three before
}

func datapathColumns() []rows.Column[datapath] {
	derive := func(id ovsdb.UUID, d *datapath) { d.network = d.logicalSwitch() }
	return []rows.Column[datapath]{
		rows.Integer("tunnel_key", func(d *datapath) *uint32 { return &d.key }),
		rows.Key("external_ids", "name", func(d *datapath) *string { return &d.name }),
		rows.Key("external_ids", "logical-switch", func(d *datapath) *string { return &d.legacy }).Then(derive),
		rows.UUID("nb_uuid", func(d *datapath) *ovsdb.UUID { return &d.nbUUID }).Optional().Then(derive),
		rows.String("type", func(d *datapath) *string { return &d.kind }).Optional().Then(derive),
	}
}

// logicalSwitch returns the Logical_Switch of a datapath, zero for a router.
func (d *datapath) logicalSwitch() origin.Network {
	if d.kind == "logical-switch" && d.nbUUID != (ovsdb.UUID{}) {
		return origin.Network(d.nbUUID)
	}
	if id, err := ovsdb.ParseUUID(d.legacy); err == nil {
		return origin.Network(id)
	}
	return origin.Network{}
}

func (s *southbound) datapathChanged(id ovsdb.UUID, old, next *datapath) {
	s.changes.node(id)
	s.changes.interest = true
	s.markRouter(id)
	if old != nil && !old.network.IsZero() {
		s.networks.Remove(old.network, id)
		s.named.Remove(old.name, id)
		s.changes.name(old.name)
		s.changes.network(old.network, partRow)
	}
	if next == nil {
		return
	}
	next.id = id
	if !next.network.IsZero() {
		s.networks.Add(next.network, id, next)
		s.named.Add(next.name, id, next)
		s.changes.name(next.name)
		s.changes.network(next.network, partPorts)
	}
}

// markDatapath notes a change of the network of a datapath. A datapath that is not known yet is
// noted when it comes.
func (s *southbound) markDatapath(id ovsdb.UUID, p part) {
	if d := s.datapaths.Get(id); d != nil && !d.network.IsZero() {
		s.changes.network(d.network, p)
	}
}
