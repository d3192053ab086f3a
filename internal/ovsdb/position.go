// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"slices"
)

// Position says which state of a database the rows of a Receiver are, so that a server that
// remembers that state need only send what has changed since ("monitor_cond_since" of
// ovsdb-server(7)).
type Position struct {
	// Last is the last transaction that the rows reflect, zero if the server has told none. The
	// servers of a cluster and their relays remember the last 100 (ovsdb_txn_history_run in
	// ovsdb/transaction.c of Open vSwitch), a standalone server none.
	Last UUID
	// Columns are those that were asked for, by table, and Where the conditions that the rows
	// reflect.
	Columns map[string][]string
	Where   map[string]json.RawMessage
	// Cluster is that of the server, zero for none, and Index what it had read of its log at least.
	Cluster UUID
	Index   int64
}

// IsZero reports whether the rows are no state of a database.
func (p *Position) IsZero() bool { return p.Columns == nil }

// held is what the receiver has. Only the goroutine of Client.Run uses it.
type held struct {
	position Position
	// asked is what the rows reflect of the calls of SetConditions and Reread.
	asked asked
	// whole is set while the rows are the state that position says. It is not while an update
	// is delivered, and not from an update that comes while a change of conditions is
	// outstanding up to the reply: nothing tells whether that update reflects the change.
	whole bool
}

// Position returns which state of the database the rows are, zero if they are none. It is for
// Receiver.Commit, and may not be called from elsewhere.
func (c *Client) Position() Position {
	if !c.held.whole {
		return Position{}
	}
	return c.held.position
}

// holdNothing notes that the rows are no state of the database for now.
func (s *session) holdNothing() { s.client.held.whole = false }

// hold notes that the rows are the state of the database after a transaction, and reflect what
// was asked for.
func (s *session) hold(last UUID, now asked, where map[string]json.RawMessage) {
	columns := make(map[string][]string, len(s.main.tables))
	for name, t := range s.main.tables {
		columns[name] = t.names
	}
	h := &s.client.held
	*h = held{position: Position{Last: last, Columns: columns, Where: where}, asked: now, whole: true}
	s.noteIndex()
}

// noteIndex notes how far the server had read its log at least, as far as that is known.
func (s *session) noteIndex() {
	if s.server != nil {
		h := &s.client.held
		h.position.Cluster, h.position.Index = s.server.cid, s.server.read()
	}
}

// resumable returns the position from which changes are enough, and what the rows reflect there.
// It reports whether there is one: the rows have the columns that are asked for now, and all of
// them are not wanted once more.
func (s *session) resumable(now asked) (Position, asked, bool) {
	h := &s.client.held
	ok := h.whole && h.position.Last != (UUID{}) && h.asked.rereads == now.rereads &&
		len(h.position.Columns) == len(s.main.tables) && len(h.position.Where) == len(s.main.tables)
	for name, t := range s.main.tables {
		ok = ok && slices.Equal(t.names, h.position.Columns[name]) && h.position.Where[name] != nil
	}
	return h.position, h.asked, ok
}
