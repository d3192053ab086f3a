// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// Contents is the rows of a database.
type Contents struct {
	// Tables are set before the start.
	Tables rows.Tables
	// Changes is what the callbacks of the tables have noted.
	Changes Changes
	// DNSCount counts the rows of DNS and their records.
	DNSCount DNSCount
}

// Changes is what the rows of a database have changed since take. The callbacks of its tables fill
// it, whoever uses what. Source.mu guards it.
type Changes struct {
	// Networks are to be built anew.
	Networks map[origin.Network]Part
	// Names may have other holders, and nodes of the graph other links.
	Names map[string]struct{}
	Nodes map[ovsdb.UUID]struct{}
	// Released are the ports that were unbound here, though they are requested here.
	Released []string
	// Problems are the problems of rows that have changed, nil for none. badRows are these rows, in the order
	// in which they changed.
	Problems map[problem.Row]*problem.Set
	BadRows  []problem.Row
	// Interest is set if other rows may be wanted, and chassis if the local chassis has another row.
	Interest, Chassis bool
}

// Part is a set of what has changed of a network.
type Part uint8

const (
	PartNames   Part = 1 << iota
	PartPorts        // and names
	PartRow          // the row that the network is covered by, with all else
	PartRouters      // what the network says of its routers
	PartServers      // the DNS servers of its ports
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

// Take returns the Changes and begins anew.
func (c *Changes) Take() Changes {
	all := *c
	*c = Changes{}
	return all
}

// Names of the databases in their schemas.
const (
	SouthboundName = "OVN_Southbound"
	NorthboundName = "OVN_Northbound"
)

// withProblems wraps a row callback: the problems of the row are part of the Changes.
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
