// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"slices"
)

// Position identifies a state of the database. A server that remembers the state sends only the changes since
// ("monitor_cond_since" of ovsdb-server(7)).
type Position struct {
	// Last is the last transaction in the rows, or zero. Servers of a cluster and relays remember the last
	// 100, a standalone server none.
	Last    UUID
	Columns map[string][]string
	Where   map[string]json.RawMessage
	// Index is a lower bound of the rows' Raft index.
	Cluster UUID
	Index   int64
}

func (p *Position) IsZero() bool { return p.Columns == nil }

// resumePoint is the state of the receiver's rows. Only the goroutine of Client.Run uses it.
type resumePoint struct {
	position Position
	sent     sent
	// valid is unset during an update, and from an update during a change of conditions to the reply, as the
	// update may not reflect the change.
	valid bool
}

// Position returns the state of the rows, or zero. Only Receiver.Commit may call it.
func (c *Client) Position() Position {
	if !c.resume.valid {
		return Position{}
	}
	return c.resume.position
}

func (s *session) clearResume() { s.client.resume.valid = false }

func (s *session) setResume(last UUID, now sent, where map[string]json.RawMessage) {
	columns := make(map[string][]string, len(s.main.tables))
	for name, t := range s.main.tables {
		columns[name] = t.names
	}
	s.client.resume = resumePoint{position: Position{Last: last, Columns: columns, Where: where}, sent: now, valid: true}
	s.setResumeIndex()
}

func (s *session) setResumeIndex() {
	if s.server != nil {
		r := &s.client.resume
		r.position.Cluster, r.position.Index = s.server.cid, s.server.readIndex()
	}
}

// resumable reports false if the rows are in no known state, have other columns, or a Resync was called
// since.
func (s *session) resumable(now sent) (Position, sent, bool) {
	r := &s.client.resume
	ok := r.valid && r.position.Last != (UUID{}) && r.sent.resyncs == now.resyncs &&
		len(r.position.Columns) == len(s.main.tables) && len(r.position.Where) == len(s.main.tables)
	for name, t := range s.main.tables {
		ok = ok && slices.Equal(t.names, r.position.Columns[name]) && r.position.Where[name] != nil
	}
	return r.position, r.sent, ok
}
