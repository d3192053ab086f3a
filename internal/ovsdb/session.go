// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
)

// One monitor has all tables, since overlapping monitors would send a row twice. The other has the row of
// _Server, which shows whether the server is connected to its cluster.
const (
	mainID       = `"puntdns"`
	serverID     = `"puntdns-server"`
	echoID       = `"echo"`
	lastTxnID    = `"puntdns-position"`
	lastTxnEndID = `"puntdns-position-end"`
	indexID      = `"puntdns-index"`
)

// session is one connection. Only the goroutine of Client.Run uses it: it reads, and writes between reads. At
// most one request is outstanding, not counting echo requests and polls.
type session struct {
	ctx    context.Context
	client *Client
	conn   net.Conn
	dec    decoder
	onSync func()

	main   *monitor
	server *serverRow

	lastID  int
	pending string
	reply   message

	// synced is set while the contents are complete; Resync unsets it.
	synced bool
	// loading is set while the tables with conditions are read, see readAll. loadedTxn is the last
	// transaction meanwhile.
	loading   bool
	loadedTxn UUID
	remembers bool
	// discarding is set while the rows of the main monitor are dropped, until it has ended.
	discarding bool
	// canceling is set while the outstanding request ends the main monitor.
	canceling bool
	// changing is set while the outstanding request changes conditions. changes bounds their rate.
	changing bool
	changes  tokens
	polling  polling
	// sent and where are the conditions of the last request.
	sent  sent
	where map[string]json.RawMessage

	// silentSince is the time of the last bytes, or of the echo request if probed is set.
	silentSince time.Time
	// probed is set while no bytes have come since the last echo request.
	probed bool
	// replyDeadline ends the time in which the outstanding request allows silence.
	replyDeadline time.Time
}

func newSession(ctx context.Context, c *Client, conn net.Conn, onSync func()) *session {
	s := &session{ctx: ctx, client: c, conn: conn, onSync: onSync, silentSince: time.Now()}
	s.dec.scanner, s.dec.maxRow = newScanner(s), maxRow
	return s
}

func (s *session) run() error {
	if err := s.watchServer(); err != nil {
		return err
	}
	if err := s.openMain(); err != nil {
		return err
	}
	for {
		if err := s.step(); err != nil {
			return err
		}
	}
}

// The monitor of _Server has no condition: the server composes an update once for all clients
// (ovsdb_monitor_get_update in ovsdb/monitor.c of Open vSwitch).
func (s *session) watchServer() error {
	s.server = &serverRow{
		database: s.client.cfg.Database, clusterIndex: s.client.clusterIndex,
		onChange: func(now ServerState) { s.client.server.Store(&now) },
	}
	m := &monitor{id: serverID, tables: serverTables, row: s.server.update}
	var refused *serverError
	if err := s.startMonitor(m, "_Server", map[string]json.RawMessage{"Database": allRows}); err != nil {
		if errors.As(err, &refused) {
			s.server = nil
			return nil
		}
		return err
	}
	if s.server.model == modelClustered {
		result, err := s.call("transact", s.server.indexQuery()...)
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		s.server.takeIndex(result)
	}
	if err := s.server.check(); err != nil {
		return err
	}
	if s.server.isBehind() {
		return errBehind
	}
	return nil
}

func (s *session) serverChanged() error {
	if s.server == nil {
		return nil
	}
	if err := s.server.check(); err != nil {
		return err
	}
	if s.synced {
		s.server.noteRead()
	}
	return nil
}

func (s *session) openMain() error {
	c := s.client
	text, err := s.call("get_schema", c.cfg.Database)
	if err != nil {
		return err
	}
	var sch schema
	if err := json.Unmarshal(text, &sch); err != nil {
		return fmt.Errorf("schema of %q: %w", c.cfg.Database, err)
	}
	tables, err := sch.tables(c.cfg.Database, c.cfg.Tables)
	if err != nil {
		return err
	}
	s.main = &monitor{id: mainID, tables: tables, row: func(table string, id UUID, op Op, row *Row) error {
		if s.discarding {
			return nil
		}
		s.clearResume()
		return c.cfg.Receiver.Row(table, id, op, row)
	}}
	if err := s.checkLastTxn(); err != nil {
		return err
	}
	if err := s.readMain(); err != nil {
		return err
	}
	s.client.behindSince = time.Time{}
	s.onSync()
	return nil
}

// readMain commits the changes since the receiver's position if the server remembers it, otherwise all
// contents.
func (s *session) readMain() error {
	c := s.client
	now, where, err := c.conditions(s.main.tables)
	if err != nil {
		return err
	}
	s.synced = false
	from, fromSent, ok := s.resumable(now)
	if ok && s.remembers {
		// With the conditions of the receiver's rows; new ones follow.
		resumed, last, err := s.resume(from)
		if err != nil {
			return err
		}
		if resumed {
			now, where = fromSent, from.Where
			s.finishRead(now, where, last)
			return nil
		}
	}
	last, err := s.readAll(where)
	if err != nil {
		return err
	}
	s.finishRead(now, where, last)
	return nil
}

func (s *session) finishRead(now sent, where map[string]json.RawMessage, last UUID) {
	s.sent, s.where, s.synced = now, where, true
	s.setResume(last, now, where)
	s.polling.begin(time.Now(), s.server)
	if s.server != nil {
		s.server.noteRead()
	}
	s.client.cfg.Receiver.Conditions(now.gen)
	s.client.cfg.Receiver.Commit()
}

// If the server has forgotten the position since checkLastTxn, no monitor runs.
func (s *session) resume(from Position) (resumed bool, last UUID, err error) {
	s.main.begin = func(found bool) {
		if resumed, s.discarding = found, !found; found {
			s.client.counts.resumed.Add(1)
		}
	}
	defer func() { s.discarding = false }()
	err = s.startMonitor(s.main, s.client.cfg.Database, from.Where, from.Last.String())
	if err != nil || resumed {
		return resumed, s.reply.last, err
	}
	_, err = s.call("monitor_cancel", json.RawMessage(mainID))
	return false, UUID{}, err
}

// readAll begins the main monitor without the rows of tables with conditions; a change of conditions brings
// them. For initial contents the server copies all rows of a table before it evaluates the conditions
// (ovsdb_monitor_get_initial in ovsdb/monitor.c of Open vSwitch); for a change it copies none.
func (s *session) readAll(where map[string]json.RawMessage) (last UUID, err error) {
	s.reset()
	s.main.begin = func(bool) {}
	first, rest := splitConditions(where)
	err = s.startMonitor(s.main, s.client.cfg.Database, first, UUID{}.String())
	if err != nil || len(rest) == 0 {
		return s.reply.last, err
	}
	s.loading, s.loadedTxn = true, s.reply.last
	defer func() { s.loading = false }()
	s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	_, err = s.call("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), changeRequests(rest))
	return s.loadedTxn, err
}

func (s *session) reset() {
	s.client.counts.contents.Add(1)
	s.clearResume()
	s.client.cfg.Receiver.Reset()
}

func splitConditions(where map[string]json.RawMessage) (first, rest map[string]json.RawMessage) {
	first, rest = maps.Clone(where), make(map[string]json.RawMessage, len(where))
	for table, text := range where {
		if !bytes.Equal(text, allRows) && !bytes.Equal(text, noRows) {
			first[table], rest[table] = noRows, text
		}
	}
	return first, rest
}

type changeRequest struct {
	Where json.RawMessage `json:"where"`
}

func changeRequests(where map[string]json.RawMessage) map[string][]changeRequest {
	requests := make(map[string][]changeRequest, len(where))
	for table, text := range where {
		requests[table] = []changeRequest{{text}}
	}
	return requests
}

var noInitial = json.RawMessage(`{"initial":false}`)

// startMonitor needs monitor_cond_since if last is given, otherwise monitor_cond.
func (s *session) startMonitor(m *monitor, database string, where map[string]json.RawMessage, last ...string) error {
	type request struct {
		Columns []string        `json:"columns"`
		Where   json.RawMessage `json:"where"`
		Select  json.RawMessage `json:"select,omitempty"`
	}
	requests := make(map[string][]request, len(m.tables))
	for name, t := range m.tables {
		// Never null: null requests all columns.
		r := request{Columns: append([]string{}, t.names...), Where: where[name]}
		if m == s.main && !bytes.Equal(r.Where, allRows) {
			// The same for all conditions: clients whose select differs cannot share a monitor.
			r.Select, r.Where = noInitial, withUUID(r.Where)
		}
		requests[name] = []request{r}
	}
	s.dec.initial = m
	if !slices.Contains(s.dec.updates, m) {
		s.dec.updates = append(s.dec.updates, m)
	}
	if m == s.main {
		// _Server needs no deadline: its row is small.
		s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	}
	method, params := "monitor_cond", []any{database, json.RawMessage(m.id), requests}
	if len(last) > 0 {
		method, params = "monitor_cond_since", append(params, last[0])
	}
	_, err := s.call(method, params...)
	s.dec.initial = nil
	return err
}

func (s *session) call(method string, params ...any) (json.RawMessage, error) {
	if err := s.request(method, params...); err != nil {
		return nil, err
	}
	for s.pending != "" {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	if err := newServerError(method, s.reply.err); err != nil {
		return nil, err
	}
	if s.dec.initial != nil && s.reply.rows == nil {
		return nil, fmt.Errorf("%s: the reply has no rows but %.40q", method, s.reply.result)
	}
	return s.reply.result, nil
}

func (s *session) request(method string, params ...any) error {
	s.lastID++
	s.pending = strconv.Itoa(s.lastID)
	text, err := encodeRequest(method, s.pending, params...)
	if err != nil {
		return err
	}
	return s.write(text)
}

func encodeRequest(method, id string, params ...any) ([]byte, error) {
	return json.Marshal(map[string]any{"method": method, "params": params, "id": json.RawMessage(id)})
}

func (s *session) step() error {
	msg, err := s.dec.next()
	if err != nil {
		return err
	}
	if msg.method != "" {
		return s.handleRequest(msg)
	}
	return s.handleReply(msg)
}

func (s *session) handleRequest(msg message) error {
	switch {
	case msg.method == methodUpdate3 && msg.rows == s.main && s.main != nil:
		return s.handleUpdate(msg)
	case msg.method == methodUpdate2 && msg.rows != nil && msg.rows != s.main:
		return s.serverChanged()
	case msg.rows != nil:
		return fmt.Errorf("rows in a request of method %q", msg.method)
	case msg.method == "echo":
		if msg.params == nil {
			msg.params = json.RawMessage("[]")
		}
		if msg.id == nil {
			msg.id = json.RawMessage("null")
		}
		return s.write(fmt.Appendf(nil, `{"id":%s,"result":%s,"error":null}`, msg.id, msg.params))
	case msg.method == "monitor_canceled":
		return errors.New("the server ended the monitor")
	}
	return nil
}

func (s *session) handleUpdate(msg message) error {
	switch {
	case s.discarding:
		return nil
	case s.loading:
		s.loadedTxn = msg.last
		return nil
	case !s.synced:
		// Initial contents come in the reply, before any update.
		return errors.New("an update before the initial contents")
	}
	r := &s.client.resume
	r.valid = !s.changing
	if s.server != nil && !s.changing { // an update for a change of conditions is no transaction
		s.server.updates++
		s.server.noteRead()
	}
	r.position.Last = msg.last
	s.polling.seenAt = time.Now()
	s.setResumeIndex()
	s.client.cfg.Receiver.Commit()
	return nil
}

func (s *session) handleReply(msg message) error {
	if msg.rows == nil {
		switch string(msg.id) {
		case echoID, lastTxnEndID:
			return nil
		case indexID:
			return s.gotIndex(msg)
		case lastTxnID:
			return s.gotLastTxn(msg)
		}
	}
	if s.pending == "" || string(msg.id) != s.pending {
		return fmt.Errorf("a reply to request %.40q, which is not under way", msg.id)
	}
	s.pending, s.reply, s.replyDeadline = "", msg, time.Time{}
	if !s.synced {
		return nil
	}
	if s.canceling {
		s.canceling = false
		if err := newServerError("monitor_cancel", msg.err); err != nil {
			return err
		}
		return s.readMain()
	}
	s.changing = false
	if err := newServerError("monitor_cond_change", msg.err); err != nil {
		return err
	}
	s.setResume(s.client.resume.position.Last, s.sent, s.where)
	s.client.cfg.Receiver.Conditions(s.sent.gen)
	s.client.cfg.Receiver.Commit()
	return nil
}

func (s *session) mayChange(now time.Time) bool {
	return s.synced && s.pending == "" && !s.changes.next(now).After(now)
}

func (s *session) changeConditions() error {
	if !s.mayChange(time.Now()) || !s.client.changed(s.sent) {
		return nil
	}
	now, where, err := s.client.conditions(s.main.tables)
	if err != nil {
		return err
	}
	if now.resyncs != s.sent.resyncs {
		s.canceling = true
		s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
		return s.request("monitor_cancel", json.RawMessage(mainID))
	}
	// An empty change is sent too: Receiver.Conditions follows the reply.
	changed := map[string]json.RawMessage{}
	for table, text := range where {
		if !bytes.Equal(text, s.where[table]) {
			changed[table] = text
		}
	}
	s.sent, s.where, s.changing = now, where, true
	s.changes.take(time.Now())
	s.client.counts.changes.Add(1)
	s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	return s.request("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), changeRequests(changed))
}

// Read sends changes of conditions, polls and echo requests while no bytes arrive. SetConditions and Resync
// end a read that waits by a deadline in the past.
func (s *session) Read(p []byte) (int, error) {
	for {
		if err := s.changeConditions(); err != nil {
			return 0, err
		}
		wake, err := s.poll()
		if err != nil {
			return 0, err
		}
		limit := s.client.cfg.ProbeInterval
		if s.probed && s.synced {
			limit = s.client.cfg.ProbeTimeout
		}
		deadline := s.silentSince.Add(limit)
		if s.replyDeadline.After(deadline) {
			deadline = s.replyDeadline
		}
		wait, err := s.armRead(deadline, wake)
		if err != nil {
			return 0, err
		}
		if !wait {
			continue
		}
		n, err := s.conn.Read(p)
		s.client.counts.read.Add(uint64(n))
		switch {
		case n > 0:
			s.silentSince, s.probed = time.Now(), false
			return n, nil
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		case s.ctx.Err() != nil:
			return 0, s.ctx.Err()
		case time.Now().Before(deadline):
			continue // SetConditions or Resync was called, or a poll or a change is due
		case s.probed:
			return 0, errors.New("the server is silent and answers no echo request")
		}
		s.silentSince, s.probed = time.Now(), true
		if err := s.write([]byte(`{"method":"echo","params":[],"id":` + echoID + `}`)); err != nil {
			return 0, err
		}
	}
}

// armRead sets the deadline of the next read, earlier for a poll (zero for never) or for a change of
// conditions that waits for its rate. wait is false if a change can be sent now. The lock keeps SetConditions
// and Resync from coming between the check and the deadline.
func (s *session) armRead(deadline, poll time.Time) (wait bool, err error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	now, changed := time.Now(), s.sent != (sent{c.gen, c.resyncs})
	if changed && s.mayChange(now) {
		return false, nil
	}
	if !poll.IsZero() && poll.Before(deadline) {
		deadline = poll
	}
	if next := s.changes.next(now); changed && s.synced && s.pending == "" && next.Before(deadline) {
		deadline = next
	}
	return true, s.conn.SetReadDeadline(deadline)
}

func (s *session) write(text []byte) error {
	c := s.client
	c.mu.Lock()
	err := s.ctx.Err()
	if err == nil {
		// A busy server reads late.
		err = s.conn.SetWriteDeadline(time.Now().Add(c.cfg.ReplyTimeout))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	n, err := s.conn.Write(text)
	s.client.counts.written.Add(uint64(n))
	if err != nil {
		return s.writeError(err)
	}
	return nil
}

// With TLS 1.3 a server refuses our certificate by an alert after the handshake is complete on our side. The
// write fails, and the alert can still be read.
func (s *session) writeError(failed error) error {
	conn, ok := s.conn.(*tls.Conn)
	if !ok || conn.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return failed
	}
	var b [1]byte
	_, err := conn.Read(b[:])
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return err
	}
	return failed
}
