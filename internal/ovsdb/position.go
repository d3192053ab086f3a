// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"slices"
)

// Position identifies the state of a database that the rows of a Receiver have. A server that remembers
// this state sends only the changes since ("monitor_cond_since" of ovsdb-server(7)).
type Position struct {
	// Last is the last transaction in the rows, zero if the server names none. Servers of a cluster and
	// relays remember the last 100 (ovsdb_txn_history_run in ovsdb/transaction.c of Open vSwitch), a
	// standalone server none.
	Last UUID
	// Columns are the requested columns, by table, and Where the conditions of the rows.
	Columns map[string][]string
	Where   map[string]json.RawMessage
	// Cluster is the server's cluster, zero for none. Index is a lower bound of the Raft index that the
	// rows reflect.
	Cluster UUID
	Index   int64
}

// IsZero reports whether the rows are no state of a database.
func (p *Position) IsZero() bool { return p.Columns == nil }

// resumePoint is the state of the receiver's rows. Only the goroutine of Client.Run uses it.
type resumePoint struct {
	position Position
	// sent are the calls of SetConditions and Resync that the rows reflect.
	sent sent
	// valid is set while the rows are in the state of position. It is unset while an update is
	// delivered, and from an update during a change of conditions to the reply: the update may or may
	// not reflect the change.
	valid bool
}

// Position returns the state of the database that the rows are in, zero if they are in none. Only
// Receiver.Commit may call it.
func (c *Client) Position() Position {
	if !c.resume.valid {
		return Position{}
	}
	return c.resume.position
}

// clearResume records that the rows are in no state of the database for now.
func (s *session) clearResume() { s.client.resume.valid = false }

// setResume records that the rows are in the state after the transaction last, with these conditions.
func (s *session) setResume(last UUID, now sent, where map[string]json.RawMessage) {
	columns := make(map[string][]string, len(s.main.tables))
	for name, t := range s.main.tables {
		columns[name] = t.names
	}
	s.client.resume = resumePoint{position: Position{Last: last, Columns: columns, Where: where}, sent: now, valid: true}
	s.setResumeIndex()
}

// setResumeIndex records the server's cluster and Raft index, if the server has a row in _Server.
func (s *session) setResumeIndex() {
	if s.server != nil {
		r := &s.client.resume
		r.position.Cluster, r.position.Index = s.server.cid, s.server.readIndex()
	}
}

// resumable returns the position to ask for changes from, and the calls that its rows reflect. It
// reports false if all contents are needed: the rows are in no known state, have other columns, or a
// Resync was called since.
func (s *session) resumable(now sent) (Position, sent, bool) {
	r := &s.client.resume
	ok := r.valid && r.position.Last != (UUID{}) && r.sent.resyncs == now.resyncs &&
		len(r.position.Columns) == len(s.main.tables) && len(r.position.Where) == len(s.main.tables)
	for name, t := range s.main.tables {
		ok = ok && slices.Equal(t.names, r.position.Columns[name]) && r.position.Where[name] != nil
	}
	return r.position, r.sent, ok
}
