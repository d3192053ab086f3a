// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
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
	// Cluster is that of the server, zero for none, and Index what it had read of its log.
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

const (
	// staleAfter is after how many transactions in a cluster the server is asked for the last
	// one. It tells of one only with rows, and those of other nodes are left out by conditions.
	// It is so far below 100 that there is time to connect again.
	staleAfter = 25
	// minPositionInterval bounds how often a server is asked, and relayPositionInterval is how
	// often a relay is, which does not tell how many transactions there were.
	minPositionInterval   = time.Second
	relayPositionInterval = 10 * time.Second
)

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

// noteIndex notes how far the server had read its log when it told the last transaction.
func (s *session) noteIndex() {
	if s.server != nil {
		h := &s.client.held
		h.position.Cluster, h.position.Index = s.server.cid, s.server.index
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

// askPosition asks for the last transaction if that is due. Else it returns when it will be, if
// nothing happens before; zero for never.
//
// The request is for a monitor without rows, which ends at once. The server sends what is
// outstanding of the main monitor before it takes the next request
// (ovsdb_jsonrpc_session_run), so the transaction that it tells is one that the rows reflect.
func (s *session) askPosition() (due time.Time, err error) {
	h := &s.client.held
	switch {
	case !s.synced || s.canceling || !h.whole || h.position.Last == (UUID{}) || s.server == nil || s.positionAsked:
		return time.Time{}, nil
	case s.server.model == modelRelay:
		due = s.positionAt.Add(relayPositionInterval)
	case s.server.index-h.position.Index >= staleAfter:
		due = s.positionAt.Add(minPositionInterval)
	default:
		return time.Time{}, nil
	}
	now := time.Now()
	if now.Before(due) {
		return due, nil
	}
	s.positionAsked, s.positionAt = true, now
	no := map[string]bool{"initial": false, "insert": false, "delete": false, "modify": false}
	requests := make(map[string]any, 1)
	for name := range s.main.tables {
		requests[name] = []any{map[string]any{"columns": []string{}, "where": []bool{false}, "select": no}}
		break
	}
	begin, err := encodeRequest("monitor_cond_since", positionID, s.client.cfg.Database, json.RawMessage(positionID), requests, UUID{}.String())
	if err != nil {
		return time.Time{}, err
	}
	end, err := encodeRequest("monitor_cancel", positionEndID, json.RawMessage(positionID))
	if err != nil {
		return time.Time{}, err
	}
	return time.Time{}, s.write(append(begin, end...))
}

// positionTold takes the reply to askPosition.
func (s *session) positionTold(msg message) error {
	if err := newServerError("monitor_cond_since", msg.err); err != nil {
		return err
	}
	var result []json.RawMessage
	var text string
	if json.Unmarshal(msg.result, &result) != nil || len(result) != 3 || json.Unmarshal(result[1], &text) != nil {
		return errors.New("monitor_cond_since: the reply names no transaction")
	}
	last, err := ParseUUID(text)
	if err != nil {
		return err
	}
	s.positionAsked = false
	if h := &s.client.held; h.whole && s.synced {
		h.position.Last = last
		s.noteIndex()
		s.client.cfg.Receiver.Commit()
	}
	return nil
}
