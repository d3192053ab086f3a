// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
)

// serverRow is the database's row in _Server.Database (ovsdb-server(5)). A follower is as good as the leader
// while it is connected to the cluster and not behind what the client has read.
type serverRow struct {
	database string
	// clusterIndex has, by cluster, a lower bound of the Raft index that was read on any connection.
	clusterIndex map[UUID]int64
	onChange     func(ServerState)

	id                 UUID
	present, connected bool
	model              string
	leader             bool
	cid                UUID
	// index is the Raft index at the last poll, valid with hasIndex. updates counts the updates of the main
	// monitor since.
	index    int64
	hasIndex bool
	updates  int64
}

const (
	modelClustered = "clustered"
	modelRelay     = "relay"
)

const (
	colName = iota
	colModel
	colConnected
	colCID
	colLeader
)

// serverTables lacks the column index, which changes with each transaction of a cluster. The client polls for
// it, see indexQuery.
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

type ServerState struct {
	// Model is standalone, clustered or relay; empty without a row.
	Model string
	// Leader is set for the leader of a cluster, and without a cluster.
	Leader bool
}

func (c *Client) Server() ServerState {
	if s := c.server.Load(); s != nil {
		return *s
	}
	return ServerState{}
}

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

// isBehind reports whether the server is behind what earlier connections have read. Call it only at the start
// of a connection: later the index may lag a little behind the rows.
func (r *serverRow) isBehind() bool { return r.hasIndex && r.index < r.clusterIndex[r.cid] }

var errBehind = errors.New("the server is behind what was read of its cluster before")

// historyLength is how many transactions a server of a cluster remembers.
const historyLength = 100

// mayLack reports whether a server that does not know the last transaction may lack it. The leader lacks
// none. A server that has read historyLength more transactions has forgotten it; large transactions make it
// forget sooner.
func (r *serverRow) mayLack() bool {
	return r.model == modelClustered && !r.leader && r.hasIndex && r.index < r.clusterIndex[r.cid]+historyLength
}

// Each update since the last poll is one transaction at least.
func (r *serverRow) readIndex() int64 { return r.index + r.updates }

// A database in no cluster has no index.
func (r *serverRow) noteRead() { r.clusterIndex[r.cid] = max(r.clusterIndex[r.cid], r.readIndex()) }

func (r *serverRow) indexQuery() []any {
	return []any{"_Server", map[string]any{
		"op": "select", "table": "Database", "columns": []string{"index"},
		"where": []any{[]any{"name", "==", r.database}},
	}}
}

func (r *serverRow) takeIndex(result json.RawMessage) {
	var operations []struct {
		Rows []struct{ Index int64 }
	}
	// Anything else, such as an empty set or an error, means no index.
	if json.Unmarshal(result, &operations) == nil && len(operations) == 1 && len(operations[0].Rows) == 1 {
		r.index, r.hasIndex, r.updates = operations[0].Rows[0].Index, true, 0
	}
}
