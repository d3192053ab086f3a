// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
)

// serverRow is the database's row in _Server.Database (ovsdb-server(5)). A follower is as good as the
// leader of its cluster while it is connected to the cluster and not behind what the client has read.
type serverRow struct {
	database string
	// clusterIndex has, by cluster, a lower bound of the Raft index that was read on any connection.
	clusterIndex map[UUID]int64
	// onChange is called after each change of the row; may be nil.
	onChange func(ServerState)

	id                 UUID // of the row, zero before it has come
	present, connected bool
	model              string
	leader             bool
	cid                UUID // of the cluster; zero for a database in none
	// index is the server's Raft index at the last poll, valid if hasIndex is set. updates counts the
	// updates of the main monitor since.
	index    int64
	hasIndex bool
	updates  int64
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

// serverTables lacks the column index: it changes with each transaction of a cluster, and the server would
// send each change to each client. The client polls for it, see indexQuery.
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

// ServerState is a server's part in a database (ovsdb-server(5), table Database).
type ServerState struct {
	// Model is standalone, clustered or relay; empty if the server has no row.
	Model string
	// Leader is set for the leader of a cluster, and for a server without one.
	Leader bool
}

// Server returns the state of the server of this connection, or of the last one.
func (c *Client) Server() ServerState {
	if s := c.server.Load(); s != nil {
		return *s
	}
	return ServerState{}
}

// update handles a row of the table, which has other rows for other databases.
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
			r.cid, r.index, r.hasIndex, r.updates = cid, 0, false, 0
		}
	}
	if op == Insert || row.Has(colLeader) {
		r.leader = row.Bool(colLeader)
	}
	if r.onChange != nil {
		r.onChange(ServerState{Model: r.model, Leader: r.leader})
	}
	return nil
}

// check returns an error if the client must not use this server.
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

// isBehind reports whether the server is behind what earlier connections have read of its cluster. It is
// for the start of a connection: later the server's index may lag a little behind the rows it has sent.
func (r *serverRow) isBehind() bool { return r.hasIndex && r.index < r.clusterIndex[r.cid] }

var errBehind = errors.New("the server is behind what was read of its cluster before")

// historyLength is the number of transactions that a server of a cluster remembers.
const historyLength = 100

// mayLack reports whether a server that does not know the last transaction of the rows may lack it,
// because it is isolated or has not caught up. The leader lacks none. A server that has read
// historyLength more transactions has forgotten it. A server may forget sooner, if transactions are large:
// mayLack is true for such a server too.
func (r *serverRow) mayLack() bool {
	return r.model == modelClustered && !r.leader && r.hasIndex && r.index < r.clusterIndex[r.cid]+historyLength
}

// readIndex returns a lower bound of the Raft index of the rows: each update since the last poll is one
// transaction at least.
func (r *serverRow) readIndex() int64 { return r.index + r.updates }

// noteRead raises clusterIndex to readIndex. A database in no cluster has no index.
func (r *serverRow) noteRead() { r.clusterIndex[r.cid] = max(r.clusterIndex[r.cid], r.readIndex()) }

// indexQuery returns the parameters of a "transact" that reads the column index.
func (r *serverRow) indexQuery() []any {
	return []any{"_Server", map[string]any{
		"op": "select", "table": "Database", "columns": []string{"index"},
		"where": []any{[]any{"name", "==", r.database}},
	}}
}

// takeIndex parses the result of indexQuery. A server in no cluster has no index.
func (r *serverRow) takeIndex(result json.RawMessage) {
	var operations []struct {
		Rows []struct{ Index int64 }
	}
	// Anything else, such as an empty set or an error, means no index.
	if json.Unmarshal(result, &operations) == nil && len(operations) == 1 && len(operations[0].Rows) == 1 {
		r.index, r.hasIndex, r.updates = operations[0].Rows[0].Index, true, 0
	}
}
