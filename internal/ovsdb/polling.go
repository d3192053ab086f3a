// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// A server names its last transaction only with rows, and conditions leave out the transactions of other
// nodes. So the client polls for the last transaction, often enough that the server still remembers it after
// a cut. It also polls for the Raft index, which shows a server that is behind. A monitor of the index would
// send each transaction of the cloud to each client.
//
// A server with the index that does not know the last transaction may lack it (serverRow.mayLack), or has
// just forgotten it. So the client avoids this server for maxBehind only.
const (
	// maxPollTxns is the intended number of transactions between two polls. A server remembers 100, fewer if
	// these are larger than the database (ovsdb_txn_history_run in ovsdb/transaction.c of Open vSwitch).
	maxPollTxns       = 35
	minPollInterval   = time.Second
	firstPollInterval = time.Second
	maxPollInterval   = 10 * time.Second
	// maxIndexAge bounds the time between two polls of the index while rows bring the last transaction.
	maxIndexAge = 30 * time.Second
	// maxBehind bounds how long the client avoids servers that may be behind.
	maxBehind = 30 * time.Second
)

type polling struct {
	outstanding int
	// remembered is unset if the server has forgotten the previous last transaction.
	remembered bool
	// seenAt is when the server last named the last transaction, sentAt the last poll.
	seenAt, sentAt time.Time
	interval       time.Duration
	index          int64
	indexAt        time.Time
}

func (p *polling) begin(now time.Time, server *serverRow) {
	*p = polling{outstanding: p.outstanding, remembered: true, seenAt: now, sentAt: now, interval: firstPollInterval, indexAt: now}
	if server != nil {
		p.index = server.index
	}
}

func (p *polling) due(clustered bool) time.Time {
	due := p.seenAt.Add(p.interval)
	if latest := p.sentAt.Add(maxIndexAge); clustered && latest.Before(due) {
		return latest
	}
	return due
}

// replied sets the next interval by the number of transactions since the previous poll. For a relay, without
// an index, the interval grows until the server has forgotten.
func (p *polling) replied(now time.Time, index int64) {
	if p.outstanding--; p.outstanding > 0 {
		return
	}
	interval := p.interval * 5 / 4
	switch n := index - p.index; {
	case n > 0:
		interval = min(maxPollInterval, time.Duration(float64(now.Sub(p.indexAt))*maxPollTxns/float64(n)))
	case n == 0 && index > 0:
		interval = p.interval * 2
	}
	if !p.remembered {
		interval = min(interval, p.interval/4)
	}
	p.interval = min(max(interval, minPollInterval), maxPollInterval)
	p.index, p.indexAt = index, now
}

// due is when the next poll is, or zero.
//
// The last transaction comes with the reply to a monitor without rows. The server sends outstanding updates
// of the main monitor before it reads the next request (ovsdb_jsonrpc_session_run), so the rows reflect the
// transaction and the index.
func (s *session) poll() (due time.Time, err error) {
	if !s.synced || s.canceling || s.server == nil || s.polling.outstanding > 0 {
		return time.Time{}, nil
	}
	r, clustered := &s.client.resume, s.server.model == modelClustered
	remembers := r.valid && (clustered || s.server.model == modelRelay) // a standalone server does not
	if !remembers && !clustered {
		return time.Time{}, nil
	}
	now := time.Now()
	if due = s.polling.due(clustered); now.Before(due) {
		return due, nil
	}
	s.polling.sentAt, s.polling.remembered = now, true
	var text []byte
	if clustered {
		s.polling.outstanding++
		if text, err = encodeRequest("transact", indexID, s.server.indexQuery()...); err != nil {
			return time.Time{}, err
		}
	}
	if remembers {
		s.polling.outstanding++
		begin, err := encodeRequest("monitor_cond_since", lastTxnID, s.lastTxnParams(r.position.Last)...)
		if err != nil {
			return time.Time{}, err
		}
		end, err := encodeRequest("monitor_cancel", lastTxnEndID, json.RawMessage(lastTxnID))
		if err != nil {
			return time.Time{}, err
		}
		text = slices.Concat(text, begin, end)
	} else {
		s.polling.seenAt = now
	}
	return time.Time{}, s.write(text)
}

func (s *session) lastTxnParams(last UUID) []any {
	no := map[string]bool{"initial": false, "insert": false, "delete": false, "modify": false}
	table := slices.Min(slices.Collect(maps.Keys(s.main.tables)))
	requests := map[string]any{table: []any{map[string]any{"columns": []string{}, "where": []bool{false}, "select": no}}}
	return []any{s.client.cfg.Database, json.RawMessage(lastTxnID), requests, last.String()}
}

func parseLastTxn(text json.RawMessage) (remembered bool, last UUID, err error) {
	var result []json.RawMessage
	var id string
	if json.Unmarshal(text, &result) != nil || len(result) != 3 ||
		json.Unmarshal(result[0], &remembered) != nil || json.Unmarshal(result[1], &id) != nil {
		return false, UUID{}, errors.New("monitor_cond_since: the reply names no transaction")
	}
	last, err = ParseUUID(id)
	return remembered, last, err
}

// checkLastTxn asks whether the server remembers the last transaction: a resume without it would first
// transfer all tables without conditions. For maxBehind at most, checkLastTxn returns errBehind if the server
// may be behind.
func (s *session) checkLastTxn() error {
	c := s.client
	last := c.resume.position.Last
	if last == (UUID{}) {
		return nil
	}
	text, err := s.call("monitor_cond_since", s.lastTxnParams(last)...)
	if err != nil {
		return err
	}
	if s.remembers, _, err = parseLastTxn(text); err != nil {
		return err
	}
	if _, err = s.call("monitor_cancel", json.RawMessage(lastTxnID)); err != nil {
		return err
	}
	if !s.remembers && s.server != nil && s.server.cid == c.resume.position.Cluster && s.server.mayLack() {
		if c.behindSince.IsZero() {
			c.behindSince = time.Now()
		}
		if time.Since(c.behindSince) < maxBehind {
			return errBehind
		}
	}
	return nil
}

func (s *session) gotIndex(msg message) error {
	if newServerError("transact", msg.err) == nil {
		s.server.takeIndex(msg.result)
	}
	s.polling.replied(time.Now(), s.server.index)
	return s.serverChanged()
}

func (s *session) gotLastTxn(msg message) error {
	if err := newServerError("monitor_cond_since", msg.err); err != nil {
		return err
	}
	remembered, last, err := parseLastTxn(msg.result)
	if err != nil {
		return err
	}
	now, r := time.Now(), &s.client.resume
	s.polling.seenAt, s.polling.remembered = now, remembered || r.position.Last == (UUID{})
	s.polling.replied(now, s.server.index)
	if r.valid && s.synced && r.position.Last != last {
		r.position.Last = last
		s.setResumeIndex()
		s.client.cfg.Receiver.Commit()
	}
	return nil
}
