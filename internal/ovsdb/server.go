// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"errors"
	"fmt"
)

// serverRow is the database's row in _Server.Database (ovsdb-server(5)).
type serverRow struct {
	database   string
	leaderOnly bool

	present, connected, leader bool
	model                      string
}

// Columns of serverTables.
const (
	colName = iota
	colModel
	colConnected
	colLeader
)

var serverTables = map[string]*table{"Database": {
	name:  "Database",
	names: []string{"name", "model", "connected", "leader"},
	columns: map[string]column{
		"name":      {index: colName, key: kindString},
		"model":     {index: colModel, key: kindString},
		"connected": {index: colConnected, key: kindBoolean},
		"leader":    {index: colLeader, key: kindBoolean},
	},
	width: 4,
}}

func (r *serverRow) update(_ string, _ UUID, op Op, row *Row) error {
	r.present = op != Delete
	if op == Insert || row.Has(colModel) {
		r.model = row.String(colModel)
	}
	if op == Insert || row.Has(colConnected) {
		r.connected = row.Bool(colConnected)
	}
	if op == Insert || row.Has(colLeader) {
		r.leader = row.Bool(colLeader)
	}
	return nil
}

// check tells why this server is not to be used.
func (r *serverRow) check() error {
	switch {
	case !r.present:
		return fmt.Errorf("the server has no database %q", r.database)
	case !r.connected && r.model == "clustered":
		return errors.New("the server is cut off from its cluster")
	case !r.connected:
		return fmt.Errorf("the server's %s database is not connected", r.model)
	case r.leaderOnly && !r.leader:
		return errors.New("the server is not the leader of its cluster")
	}
	return nil
}
