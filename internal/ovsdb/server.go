// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
)

// serverRow is the database's row in _Server.Database (ovsdb-server(5)). A follower of a
// cluster is as good as its leader while it is connected to the cluster, and not behind
// what was read of that cluster before.
type serverRow struct {
	database string
	// clusterIndex is the index of the Raft log up to which each cluster has been read at least, on
	// this or an earlier connection.
	clusterIndex map[UUID]int64
	// tell is told of each change; nil for nobody.
	tell func(ServerState)

	id                 UUID // of the row, zero before it has come
	present, connected bool
	model              string
	leader             bool
	cid                UUID // of the cluster; zero for a database in none
	// index is that of the Raft log which the server had read when it was last asked, see takeIndex;
	// indexTold is set once it has told one. updates counts the transactions that it has told since.
	index     int64
	indexTold bool
	updates   int64
}

// Models of a database that matter here (ovsdb-server(5)).
const (
	modelClustered = "clustered"
	modelRelay     = "relay"
)

// Columns of serverTables.
const (
	colName = iota
	colModel
	colConnected
	colCID
	colLeader
)

// serverTables are without index, which changes with each transaction of a cluster: all clients would
// be sent all of them. It is asked for, see indexQuery.
var serverTables = map[string]*table{"Database": {
	name:  "Database",
	names: []string{"name", "model", "connected", "cid", "leader"},
	columns: map[string]column{
		"name":      {index: colName, key: kindString},
		"model":     {index: colModel, key: kindString},
		"connected": {index: colConnected, key: kindBoolean},
		"cid":       {index: colCID, key: kindUUID},
		"leader":    {index: colLeader, key: kindBoolean},
	},
	width: 5,
}}

// ServerState is what a server says of its part in a database (ovsdb-server(5), table Database).
type ServerState struct {
	// Model is standalone, clustered or relay; empty where the server does not tell.
	Model string
	// Leader is set for the leader of a cluster, and for a server without one.
	Leader bool
}

// Server returns what the server of the present connection, or of the last one, says of itself.
func (c *Client) Server() ServerState {
	if s := c.server.Load(); s != nil {
		return *s
	}
	return ServerState{}
}

// update takes a row of the table, which has a few more for other databases.
func (r *serverRow) update(_ string, id UUID, op Op, row *Row) error {
	if op == Insert && string(row.Bytes(colName)) == r.database {
		r.id = id
	}
	if id != r.id {
		return nil
	}
	r.present = op != Delete
	if op == Insert || row.Has(colModel) {
		r.model = row.String(colModel)
	}
	if op == Insert || row.Has(colConnected) {
		r.connected = row.Bool(colConnected)
	}
	if op == Insert || row.Has(colCID) {
		if cid := row.UUID(colCID); cid != r.cid {
			r.cid, r.index, r.indexTold, r.updates = cid, 0, false, 0
		}
	}
	if op == Insert || row.Has(colLeader) {
		r.leader = row.Bool(colLeader)
	}
	if r.tell != nil {
		r.tell(ServerState{Model: r.model, Leader: r.leader})
	}
	return nil
}

// check returns an error if this server is not to be used.
func (r *serverRow) check() error {
	switch {
	case !r.present:
		return fmt.Errorf("the server has no database %q", r.database)
	case !r.connected && r.model == modelClustered:
		return errors.New("the server is cut off from its cluster")
	case !r.connected:
		return fmt.Errorf("the server's %s database is not connected", r.model)
	}
	return nil
}

// isBehind reports whether the server is behind what was read of its cluster on earlier connections. On
// the present one the index that it tells may lag a little behind what it has sent.
func (r *serverRow) isBehind() bool { return r.indexTold && r.index < r.clusterIndex[r.cid] }

var errBehind = errors.New("the server is behind what was read of its cluster before")

// historyLength is how many transactions a server of a cluster remembers.
const historyLength = 100

// mayLack reports whether a server that does not know the last transaction that was read of its cluster
// may lack it, as it is isolated or has not caught up. Else it has forgotten it, and then it has read
// so many others. The leader lacks none. One that has forgotten sooner than after historyLength others,
// since these were large, is taken for one that lacks it.
func (r *serverRow) mayLack() bool {
	return r.model == modelClustered && !r.leader && r.indexTold && r.index < r.clusterIndex[r.cid]+historyLength
}

// read returns the index up to which the rows have been delivered, or soon will be, at least: each
// transaction that was told of after the index is one more.
func (r *serverRow) read() int64 { return r.index + r.updates }

// noteRead notes what read returns. A database that is in no cluster has no index.
func (r *serverRow) noteRead() { r.clusterIndex[r.cid] = max(r.clusterIndex[r.cid], r.read()) }

// indexQuery returns the parameters of a "transact" that reads index.
func (r *serverRow) indexQuery() []any {
	return []any{"_Server", map[string]any{
		"op": "select", "table": "Database", "columns": []string{"index"},
		"where": []any{[]any{"name", "==", r.database}},
	}}
}

// takeIndex takes the result of indexQuery. A server that is in no cluster has no index.
func (r *serverRow) takeIndex(result json.RawMessage) {
	var operations []struct {
		Rows []struct{ Index int64 }
	}
	// What has another form has no index: a set without an element, or an error.
	if json.Unmarshal(result, &operations) == nil && len(operations) == 1 && len(operations[0].Rows) == 1 {
		r.index, r.indexTold, r.updates = operations[0].Rows[0].Index, true, 0
	}
}
