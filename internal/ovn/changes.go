// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// contents is the rows of a database.
type contents struct {
	// tables are set before the start.
	tables rows.Tables
	// changes is what the callbacks of the tables have noted.
	changes changes
	// dnsCount counts the rows of DNS and their records.
	dnsCount dnsCount
}

// changes is what the rows of a database have changed since take. The callbacks of its tables fill
// it, whoever uses what. Source.mu guards it.
type changes struct {
	// networks are to be built anew.
	networks map[origin.Network]part
	// names may have other holders, and nodes of the graph other links.
	names map[string]struct{}
	nodes map[ovsdb.UUID]struct{}
	// released are the ports that were unbound here, though they are requested here.
	released []string
	// problems are the problems of rows that have changed, nil for none. badRows are these rows, in the order
	// in which they changed.
	problems map[badRow]*problems
	badRows  []badRow
	// interest is set if other rows may be wanted, and chassis if the local chassis has another row.
	interest, chassis bool
}

// part is a set of what has changed of a network.
type part uint8

const (
	partNames   part = 1 << iota
	partPorts        // and names
	partRow          // the row that the network is covered by, with all else
	partRouters      // what the network says of its routers
	partServers      // the DNS servers of its ports
)

func (c *changes) network(id origin.Network, p part) {
	if c.networks == nil {
		c.networks = make(map[origin.Network]part)
	}
	c.networks[id] |= p
}

func (c *changes) name(name string) {
	if c.names == nil {
		c.names = make(map[string]struct{})
	}
	c.names[name] = struct{}{}
}

func (c *changes) node(id ovsdb.UUID) {
	if c.nodes == nil {
		c.nodes = make(map[ovsdb.UUID]struct{})
	}
	c.nodes[id] = struct{}{}
}

func (c *changes) problem(row badRow, p *problems) {
	if c.problems == nil {
		c.problems = make(map[badRow]*problems)
	}
	if _, ok := c.problems[row]; !ok {
		c.badRows = append(c.badRows, row)
	}
	c.problems[row] = p
}

// take returns the changes and begins anew.
func (c *changes) take() changes {
	all := *c
	*c = changes{}
	return all
}

// Names of the databases in their schemas.
const (
	southboundName = "OVN_Southbound"
	northboundName = "OVN_Northbound"
)

// withProblems wraps a row callback: the problems of the row are part of the changes.
func withProblems[R any, P interface {
	*R
	found() *problems
}](c *changes, database, table string, changed func(id ovsdb.UUID, old, next *R)) func(id ovsdb.UUID, old, next *R) {
	found := func(row *R) *problems {
		if row == nil || P(row).found().isEmpty() {
			return nil
		}
		return P(row).found()
	}
	return func(id ovsdb.UUID, old, next *R) {
		if was, is := found(old), found(next); was != nil || is != nil {
			c.problem(badRow{database, table, id}, is)
		}
		changed(id, old, next)
	}
}
