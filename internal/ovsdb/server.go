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
	// seen is the highest index that was read of each cluster, on whatever
	// connection.
	seen map[UUID]int64

	present, connected, leader bool
	model                      string
	cid                        UUID
	index                      int64
}

// Columns of serverTables.
const (
	colName = iota
	colModel
	colConnected
	colLeader
	colCID
	colIndex
)

var serverTables = map[string]*table{"Database": {
	name:  "Database",
	names: []string{"name", "model", "connected", "leader", "cid", "index"},
	columns: map[string]column{
		"name":      {index: colName, key: kindString},
		"model":     {index: colModel, key: kindString},
		"connected": {index: colConnected, key: kindBoolean},
		"leader":    {index: colLeader, key: kindBoolean},
		"cid":       {index: colCID, key: kindUUID},
		"index":     {index: colIndex, key: kindInteger},
	},
	width: 6,
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
	if op == Insert || row.Has(colCID) {
		r.cid = row.UUID(colCID)
	}
	if op == Insert || row.Has(colIndex) {
		r.index = row.Int(colIndex)
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
	case r.index < r.seen[r.cid]:
		return errors.New("the server is behind what was read of its cluster before")
	}
	return nil
}

// read notes that the rows up to index have been delivered, or soon will be. One
// that has no index is in no cluster.
func (r *serverRow) read() { r.seen[r.cid] = max(r.seen[r.cid], r.index) }
