// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// A server tells the last transaction only with rows, and those of other nodes are left out by
// conditions. So it is asked for, often enough that it is not among those that the server has forgotten
// when the connection is cut. And the index of the Raft log is asked for, to know a server that is
// behind: a monitor of it would bring each transaction of the whole cloud to each client.
//
// The index is known as of the last request, and each update since tells of one more. Where another
// server has read that far and does not know the last transaction, it may lack it all the same: see
// serverRow.mayLack. It is left for the next one then, for a while, as it may just have forgotten.
const (
	// maxBetweenAsks is how many transactions there are to be between two requests. The servers of a cluster
	// and relays remember 100, fewer if these are larger than the database (ovsdb_txn_history_run in
	// ovsdb/transaction.c of Open vSwitch), and it takes a while to connect again.
	maxBetweenAsks = 35
	// minAskInterval and maxAskInterval bound the time between two requests, firstAskInterval is
	// that before the first. After a quiet time up to maxAskInterval may pass before it is known how
	// many transactions there are now.
	minAskInterval   = time.Second
	firstAskInterval = time.Second
	maxAskInterval   = 10 * time.Second
	// maxIndexAge is when a server is asked though it tells of transactions with rows.
	maxIndexAge = 30 * time.Second
	// maxBehind is how long servers are left that may be behind, and nothing proves that they are.
	maxBehind = 30 * time.Second
)

// asking says when the server is asked for the last transaction and for its index.
type asking struct {
	// outstanding counts the replies that have not come. remembered is set unless the last reply has
	// said that the server does not know the transaction that was told before.
	outstanding int
	remembered  bool
	// told is when the last transaction was last told, with rows or by a reply, and at when it was
	// asked for.
	told, at time.Time
	// interval is how long after told it is asked for.
	interval time.Duration
	// index is that of the Raft log at indexAt, when the transactions were counted last.
	index   int64
	indexAt time.Time
}

// begin is for when all rows have come.
func (a *asking) begin(now time.Time, server *serverRow) {
	*a = asking{outstanding: a.outstanding, remembered: true, told: now, at: now, interval: firstAskInterval, indexAt: now}
	if server != nil {
		a.index = server.index
	}
}

// due returns when the server is to be asked.
func (a *asking) due(clustered bool) time.Time {
	due := a.told.Add(a.interval)
	if latest := a.at.Add(maxIndexAge); clustered && latest.Before(due) {
		return latest
	}
	return due
}

// answered is called for each reply. At the last one it sets the interval by how many transactions
// there were since the last time: by the index where the server has one. Else by trial: a relay has
// none.
func (a *asking) answered(now time.Time, index int64) {
	if a.outstanding--; a.outstanding > 0 {
		return
	}
	interval := a.interval * 5 / 4
	switch n := index - a.index; {
	case n > 0:
		interval = min(maxAskInterval, time.Duration(float64(now.Sub(a.indexAt))*maxBetweenAsks/float64(n)))
	case n == 0 && index > 0:
		interval = a.interval * 2
	}
	if !a.remembered {
		interval = min(interval, a.interval/4)
	}
	a.interval = min(max(interval, minAskInterval), maxAskInterval)
	a.index, a.indexAt = index, now
}

// askPosition asks for the last transaction and for the index, if that is due. Else it returns when it
// will be, if nothing happens before; zero for never.
//
// The request is for a monitor without rows, which ends at once. The server sends what is
// outstanding of the main monitor before it takes the next request
// (ovsdb_jsonrpc_session_run), so the transaction and the index that it tells are ones that the rows
// reflect.
func (s *session) askPosition() (due time.Time, err error) {
	if !s.synced || s.canceling || s.server == nil || s.asking.outstanding > 0 {
		return time.Time{}, nil
	}
	h, clustered := &s.client.held, s.server.model == modelClustered
	// A standalone server remembers none.
	tells := h.whole && (clustered || s.server.model == modelRelay)
	if !tells && !clustered {
		return time.Time{}, nil
	}
	now := time.Now()
	if due = s.asking.due(clustered); now.Before(due) {
		return due, nil
	}
	s.asking.at, s.asking.remembered = now, true
	var text []byte
	if clustered {
		s.asking.outstanding++
		if text, err = encodeRequest("transact", indexID, s.server.indexQuery()...); err != nil {
			return time.Time{}, err
		}
	}
	if tells {
		s.asking.outstanding++
		ask, err := encodeRequest("monitor_cond_since", positionID, s.positionParams(h.position.Last)...)
		if err != nil {
			return time.Time{}, err
		}
		end, err := encodeRequest("monitor_cancel", positionEndID, json.RawMessage(positionID))
		if err != nil {
			return time.Time{}, err
		}
		text = slices.Concat(text, ask, end)
	} else {
		s.asking.told = now
	}
	return time.Time{}, s.write(text)
}

// positionParams returns the parameters of the request for the last transaction, which also tells
// whether the server remembers another one.
func (s *session) positionParams(last UUID) []any {
	no := map[string]bool{"initial": false, "insert": false, "delete": false, "modify": false}
	table := slices.Min(slices.Collect(maps.Keys(s.main.tables))) // the same for all clients
	requests := map[string]any{table: []any{map[string]any{"columns": []string{}, "where": []bool{false}, "select": no}}}
	return []any{s.client.cfg.Database, json.RawMessage(positionID), requests, last.String()}
}

// parsePosition parses the result of such a request.
func parsePosition(text json.RawMessage) (remembered bool, last UUID, err error) {
	var result []json.RawMessage
	var id string
	if json.Unmarshal(text, &result) != nil || len(result) != 3 ||
		json.Unmarshal(result[0], &remembered) != nil || json.Unmarshal(result[1], &id) != nil {
		return false, UUID{}, errors.New("monitor_cond_since: the reply names no transaction")
	}
	last, err = ParseUUID(id)
	return remembered, last, err
}

// checkLast asks, before the main monitor runs, whether the server remembers the last transaction of an
// earlier connection. One that does not would send the contents of the tables that have no conditions,
// which readAll has sent again; and it may be behind: then it is an error, for maxBehind at most.
func (s *session) checkLast() error {
	last := s.client.held.position.Last
	if last == (UUID{}) {
		return nil
	}
	text, err := s.call("monitor_cond_since", s.positionParams(last)...)
	if err != nil {
		return err
	}
	if s.remembers, _, err = parsePosition(text); err != nil {
		return err
	}
	if _, err = s.call("monitor_cancel", json.RawMessage(positionID)); err != nil {
		return err
	}
	if c := s.client; !s.remembers && s.server != nil && s.server.cid == c.held.position.Cluster && s.server.mayLack() {
		if c.behindSince.IsZero() {
			c.behindSince = time.Now()
		}
		if time.Since(c.behindSince) < maxBehind {
			return errBehind
		}
	}
	return nil
}

// indexTold takes the reply to indexQuery.
func (s *session) indexTold(msg message) error {
	if newServerError("transact", msg.err) == nil {
		s.server.takeIndex(msg.result)
	}
	s.asking.answered(time.Now(), s.server.index)
	return s.serverChanged()
}

// positionTold takes the reply to the request for the last transaction.
func (s *session) positionTold(msg message) error {
	if err := newServerError("monitor_cond_since", msg.err); err != nil {
		return err
	}
	remembered, last, err := parsePosition(msg.result)
	if err != nil {
		return err
	}
	now := time.Now()
	h := &s.client.held
	s.asking.told, s.asking.remembered = now, remembered || h.position.Last == (UUID{})
	s.asking.answered(now, s.server.index)
	if h.whole && s.synced && h.position.Last != last {
		h.position.Last = last
		s.noteIndex()
		s.client.cfg.Receiver.Commit()
	}
	return nil
}
