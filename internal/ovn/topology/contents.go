// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type Contents struct {
	// Tables are set before the start.
	Tables   rows.Tables
	Changes  Changes
	DNSCount DNSCount
}

// Changes is what has changed in a database since Take, used or not. Source.mu guards it.
type Changes struct {
	Networks map[origin.Network]Part
	// Names are of networks that may have changed. Nodes may have other links.
	Names map[string]struct{}
	Nodes map[ovsdb.UUID]struct{}
	// Released are ports unbound here, though requested here.
	Released []string
	// Problems are of changed rows, nil for none. BadRows has the order of the changes.
	Problems map[problem.Row]*problem.Set
	BadRows  []problem.Row
	// Interest is set if other rows may be wanted, Chassis if the local chassis' row has changed.
	Interest, Chassis bool
}

type Part uint8

const (
	PartNames   Part = 1 << iota
	PartPorts        // and names
	PartRow          // another row has the network; all parts
	PartRouters      // addresses, names and zones of its routers
	PartServers
)

func (c *Changes) network(id origin.Network, p Part) {
	if c.Networks == nil {
		c.Networks = make(map[origin.Network]Part)
	}
	c.Networks[id] |= p
}

func (c *Changes) name(name string) {
	if c.Names == nil {
		c.Names = make(map[string]struct{})
	}
	c.Names[name] = struct{}{}
}

func (c *Changes) node(id ovsdb.UUID) {
	if c.Nodes == nil {
		c.Nodes = make(map[ovsdb.UUID]struct{})
	}
	c.Nodes[id] = struct{}{}
}

func (c *Changes) problem(row problem.Row, p *problem.Set) {
	if c.Problems == nil {
		c.Problems = make(map[problem.Row]*problem.Set)
	}
	if _, ok := c.Problems[row]; !ok {
		c.BadRows = append(c.BadRows, row)
	}
	c.Problems[row] = p
}

func (c *Changes) Take() Changes {
	all := *c
	*c = Changes{}
	return all
}

const (
	SouthboundName = "OVN_Southbound"
	NorthboundName = "OVN_Northbound"
)

const (
	columnRecords = "records"
	columnIDs     = "external_ids"
)

func withProblems[R any, P interface {
	*R
	Problems() *problem.Set
}](c *Changes, database, table string, changed func(id ovsdb.UUID, old, next *R)) func(id ovsdb.UUID, old, next *R) {
	found := func(row *R) *problem.Set {
		if row == nil || P(row).Problems().IsEmpty() {
			return nil
		}
		return P(row).Problems()
	}
	return func(id ovsdb.UUID, old, next *R) {
		if was, is := found(old), found(next); was != nil || is != nil {
			c.problem(problem.Row{Database: database, Table: table, ID: id}, is)
		}
		changed(id, old, next)
	}
}
