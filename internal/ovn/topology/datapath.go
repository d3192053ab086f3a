// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// Datapath is a row of Datapath_Binding: a logical switch or router.
type Datapath struct {
	ID      ovsdb.UUID
	Key     uint32
	Name    string
	Legacy  string         // external_ids:logical-switch, before OVN 25.09
	nbUUID  ovsdb.UUID     // the Northbound row, from OVN 25.09 on
	kind    string         // "logical-switch" or "logical-router"
	Network origin.Network // the logical switch, zero for a router
}

func datapathColumns() []rows.Column[Datapath] {
	derive := func(id ovsdb.UUID, d *Datapath) { d.Network = d.logicalSwitch() }
	return []rows.Column[Datapath]{
		rows.Integer("tunnel_key", func(d *Datapath) *uint32 { return &d.Key }),
		rows.Key("external_ids", "name", func(d *Datapath) *string { return &d.Name }),
		rows.Key("external_ids", "logical-switch", func(d *Datapath) *string { return &d.Legacy }).Then(derive),
		rows.UUID("nb_uuid", func(d *Datapath) *ovsdb.UUID { return &d.nbUUID }).Optional().Then(derive),
		rows.String("type", func(d *Datapath) *string { return &d.kind }).Optional().Then(derive),
	}
}

func (d *Datapath) logicalSwitch() origin.Network {
	if d.kind == "logical-switch" && d.nbUUID != (ovsdb.UUID{}) {
		return origin.Network(d.nbUUID)
	}
	if id, err := ovsdb.ParseUUID(d.Legacy); err == nil {
		return origin.Network(id)
	}
	return origin.Network{}
}

func (s *Southbound) datapathChanged(id ovsdb.UUID, old, next *Datapath) {
	s.Changes.node(id)
	s.Changes.Interest = true
	s.markRouter(id)
	if old != nil && !old.Network.IsZero() {
		s.Networks.Remove(old.Network, id)
		s.named.Remove(old.Name, id)
		s.Changes.name(old.Name)
		s.Changes.network(old.Network, PartRow)
	}
	if next == nil {
		return
	}
	next.ID = id
	if !next.Network.IsZero() {
		s.Networks.Add(next.Network, id, next)
		s.named.Add(next.Name, id, next)
		s.Changes.name(next.Name)
		s.Changes.network(next.Network, PartPorts)
	}
}

// datapathChanged later notes the network of a datapath that has not been read yet.
func (s *Southbound) markDatapath(id ovsdb.UUID, p Part) {
	if d := s.Datapaths.Get(id); d != nil && !d.Network.IsZero() {
		s.Changes.network(d.Network, p)
	}
}
