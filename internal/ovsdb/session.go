// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// The ids of the two monitors of a connection, and of echo requests, in JSON. One monitor
// is for all tables, since rows of monitors that overlap would come twice. The other one
// is for the row of _Server that says whether the server is connected to its cluster.
const (
	mainID   = `"puntdns"`
	serverID = `"puntdns-server"`
	echoID   = `"echo"`
	// positionID is of the monitor of askPosition and of the request for it, positionEndID of
	// the request that ends it, indexID of that for the index.
	positionID    = `"puntdns-position"`
	positionEndID = `"puntdns-position-end"`
	indexID       = `"puntdns-index"`
)

// session is one connection. Only the goroutine of Client.Run uses it: it reads, and
// writes between reads. At most one request is outstanding beside echo requests and those of
// askPosition.
type session struct {
	ctx    context.Context
	client *Client
	conn   net.Conn
	dec    decoder
	onSync func()

	main   *monitor
	server *serverRow

	lastID  int
	pending string  // id of the outstanding request, "" without one
	reply   message // the last one

	// synced is set once the initial contents are complete. It is unset while they are read
	// once more.
	synced bool
	// filling is set while the rows of the tables with conditions are read, see readAll. filled is
	// the last transaction that an update told meanwhile.
	filling bool
	filled  UUID
	// remembers is set if the server remembers the last transaction of an earlier connection.
	remembers bool
	// discarding is set while a main monitor runs whose rows are of no use, and is ended.
	discarding bool
	// canceling is set while the outstanding request is to end the main monitor.
	canceling bool
	// changing is set while the outstanding request is a change of conditions.
	changing bool
	// changes bounds the rate of changes of conditions.
	changes tokens
	asking  asking
	// asked and where are the conditions that were sent last.
	asked asked
	where map[string]json.RawMessage

	// silentSince is when the last bytes came, or when the echo request was sent that has
	// no reply yet, which probed says.
	silentSince time.Time
	probed      bool
	// replyDeadline is that of the outstanding request, zero without one. Until then the
	// server may be silent.
	replyDeadline time.Time
}

func newSession(ctx context.Context, c *Client, conn net.Conn, onSync func()) *session {
	s := &session{ctx: ctx, client: c, conn: conn, onSync: onSync, silentSince: time.Now()}
	s.dec.scanner, s.dec.maxRow = newScanner(s), maxRow
	return s
}

// run works until the connection ends, and returns why. It never returns nil.
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

// watchServer monitors the database's row in _Server, which older servers lack, and asks for its
// index. It does so without a condition: an update that goes to all clients alike is composed once
// (ovsdb_monitor_get_update in ovsdb/monitor.c of Open vSwitch).
func (s *session) watchServer() error {
	s.server = &serverRow{
		database: s.client.cfg.Database, clusterIndex: s.client.clusterIndex,
		tell: func(now ServerState) { s.client.server.Store(&now) },
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

// serverChanged is called after an update of the row in _Server.
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

// openMain starts the monitor of the tables and delivers their initial contents.
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
		s.holdNothing()
		return c.cfg.Receiver.Row(table, id, op, row)
	}}
	if err := s.checkLast(); err != nil {
		return err
	}
	if err := s.readMain(); err != nil {
		return err
	}
	s.client.behindSince = time.Time{}
	s.onSync()
	return nil
}

// readMain starts the main monitor, which is not running, and delivers what the receiver lacks:
// what has changed since the position that it has, if the server remembers that, else all contents.
func (s *session) readMain() error {
	c := s.client
	now, where, err := c.conditions(s.main.tables)
	if err != nil {
		return err
	}
	s.synced = false
	from, fromAsked, ok := s.resumable(now)
	if ok && s.remembers {
		// Changes are of the rows that the receiver has. The conditions may follow.
		resumed, last, err := s.resume(from)
		if err != nil {
			return err
		}
		if resumed {
			now, where = fromAsked, from.Where
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

// finishRead commits what readMain has read.
func (s *session) finishRead(now asked, where map[string]json.RawMessage, last UUID) {
	s.asked, s.where, s.synced = now, where, true
	s.hold(last, now, where)
	s.asking.begin(time.Now(), s.server)
	if s.server != nil {
		s.server.noteRead()
	}
	s.client.cfg.Receiver.Conditions(now.gen)
	s.client.cfg.Receiver.Commit()
}

// resume starts the main monitor with what has changed since a position, and returns the last
// transaction. It reports false if the server does not remember the position: then no monitor runs.
//
// It may forget what checkLast has asked for.
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

// readAll starts the main monitor with all contents, and returns the last transaction.
//
// The monitor begins without the tables that have conditions, and their rows come by a change of
// conditions. For initial contents the server copies each row of a table before it looks at the
// conditions (ovsdb_monitor_get_initial in ovsdb/monitor.c of Open vSwitch); for a change it
// copies none.
func (s *session) readAll(where map[string]json.RawMessage) (last UUID, err error) {
	s.reset()
	s.main.begin = func(bool) {}
	first, rest := splitConditions(where)
	err = s.startMonitor(s.main, s.client.cfg.Database, first, UUID{}.String())
	if err != nil || len(rest) == 0 {
		return s.reply.last, err
	}
	s.filling, s.filled = true, s.reply.last
	defer func() { s.filling = false }()
	s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	_, err = s.call("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), changeRequests(rest))
	return s.filled, err
}

// reset says that all contents are about to come.
func (s *session) reset() {
	s.client.counts.contents.Add(1)
	s.holdNothing()
	s.client.cfg.Receiver.Reset()
}

// splitConditions returns the conditions that a monitor begins with, and those that follow: all but
// true are false at first.
func splitConditions(where map[string]json.RawMessage) (first, rest map[string]json.RawMessage) {
	first, rest = maps.Clone(where), make(map[string]json.RawMessage, len(where))
	for table, text := range where {
		if !bytes.Equal(text, allRows) && !bytes.Equal(text, noRows) {
			first[table], rest[table] = noRows, text
		}
	}
	return first, rest
}

// changeRequest is what monitor_cond_change has of a table.
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

// noInitial has a monitor begin without the rows of a table that there are.
var noInitial = json.RawMessage(`{"initial":false}`)

// startMonitor starts a monitor by monitor_cond, or by monitor_cond_since if there is the id of a
// transaction, and delivers its rows.
func (s *session) startMonitor(m *monitor, database string, where map[string]json.RawMessage, last ...string) error {
	type request struct {
		Columns []string        `json:"columns"`
		Where   json.RawMessage `json:"where"`
		Select  json.RawMessage `json:"select,omitempty"`
	}
	requests := make(map[string][]request, len(m.tables))
	for name, t := range m.tables {
		// Never null, which would ask for all columns.
		r := request{Columns: append([]string{}, t.names...), Where: where[name]}
		if m == s.main && !bytes.Equal(r.Where, allRows) {
			// The same for all conditions: monitors that differ in it are two for the server.
			r.Select, r.Where = noInitial, withUUID(r.Where)
		}
		requests[name] = []request{r}
	}
	s.dec.initial = m
	if !slices.Contains(s.dec.updates, m) {
		s.dec.updates = append(s.dec.updates, m)
	}
	if m == s.main {
		// The one row of _Server needs no such deadline: it is small.
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

// call sends a request, handles messages until its reply comes, and returns the result.
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

// encodeRequest encodes a request; id is JSON.
func encodeRequest(method, id string, params ...any) ([]byte, error) {
	return json.Marshal(map[string]any{"method": method, "params": params, "id": json.RawMessage(id)})
}

// step reads and handles one message.
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

// handleRequest handles requests and notifications of the server.
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

// handleUpdate handles an update of the main monitor, whose rows have been delivered.
func (s *session) handleUpdate(msg message) error {
	switch {
	case s.discarding:
		return nil
	case s.filling:
		s.filled = msg.last
		return nil // its rows are among those that readMain commits
	case !s.synced:
		// The initial contents come with the reply, and updates only after it.
		return errors.New("an update before the initial contents")
	}
	h := &s.client.held
	h.whole = !s.changing
	if s.server != nil && !s.changing { // else it may tell of the change of conditions alone
		s.server.updates++
		s.server.noteRead()
	}
	h.position.Last = msg.last
	s.asking.told = time.Now()
	s.noteIndex()
	s.client.cfg.Receiver.Commit()
	return nil
}

// handleReply handles the reply to the outstanding request, or to one beside it.
func (s *session) handleReply(msg message) error {
	if msg.rows == nil {
		switch string(msg.id) {
		case echoID, positionEndID:
			return nil
		case indexID:
			return s.indexTold(msg)
		case positionID:
			return s.positionTold(msg)
		}
	}
	if s.pending == "" || string(msg.id) != s.pending {
		return fmt.Errorf("a reply to request %.40q, which is not under way", msg.id)
	}
	s.pending, s.reply, s.replyDeadline = "", msg, time.Time{}
	if !s.synced {
		return nil // call returns it
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
	s.hold(s.client.held.position.Last, s.asked, s.where)
	s.client.cfg.Receiver.Conditions(s.asked.gen)
	s.client.cfg.Receiver.Commit()
	return nil
}

// mayChange reports whether a change of conditions may be sent now.
func (s *session) mayChange(now time.Time) bool {
	return s.synced && s.pending == "" && !s.changes.next(now).After(now)
}

// changeConditions sends what SetConditions has changed since the last time, or begins what
// Reread asks for. A change waits for the reply to the one before it.
func (s *session) changeConditions() error {
	if !s.mayChange(time.Now()) || !s.client.changed(s.asked) {
		return nil
	}
	now, where, err := s.client.conditions(s.main.tables)
	if err != nil {
		return err
	}
	if now.rereads != s.asked.rereads {
		s.canceling = true
		s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
		return s.request("monitor_cancel", json.RawMessage(mainID))
	}
	// Where it is empty, the request is still sent: Receiver.Conditions follows the reply.
	changed := map[string]json.RawMessage{}
	for table, text := range where {
		if !bytes.Equal(text, s.where[table]) {
			changed[table] = text
		}
	}
	s.asked, s.where, s.changing = now, where, true
	s.changes.take(time.Now())
	s.client.counts.changes.Add(1)
	s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	return s.request("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), changeRequests(changed))
}

// Read implements io.Reader for the decoder. While no bytes come it sends changes of
// conditions, for which SetConditions and Reread end the read by a deadline in the past, and
// echo requests.
func (s *session) Read(p []byte) (int, error) {
	for {
		if err := s.changeConditions(); err != nil {
			return 0, err
		}
		wake, err := s.askPosition()
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
			continue // SetConditions or Reread was called, or something is due
		case s.probed:
			return 0, errors.New("the server is silent and answers no echo request")
		}
		s.silentSince, s.probed = time.Now(), true
		if err := s.write([]byte(`{"method":"echo","params":[],"id":` + echoID + `}`)); err != nil {
			return 0, err
		}
	}
}

// armRead sets the deadline of the next read: the one given, or when askPosition is due, zero for
// never, or when a change of conditions that waits may be sent. It reports false, and sets none, if
// conditions are to be sent first. The lock makes check and deadline one step, so that no
// call of SetConditions or Reread comes between them.
func (s *session) armRead(deadline, position time.Time) (wait bool, err error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	now, changed := time.Now(), s.asked != (asked{c.gen, c.rereads})
	if changed && s.mayChange(now) {
		return false, nil
	}
	if !position.IsZero() && position.Before(deadline) {
		deadline = position
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
		// A busy server reads late, too.
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

// writeError returns why a write has failed. A server that refuses our certificate sends
// an alert after the handshake is complete on our side (TLS 1.3), and closes the
// connection: the write fails, and the alert is still to be read.
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

var errClosed = errors.New("the server closed the connection")

// closeError returns errClosed for each error of a connection that the server has closed.
// Which one it is depends on whether a read or a write fails first.
func closeError(err error) error {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return errClosed
		}
	}
	return err
}

// serverError is the server's refusal of a request.
type serverError struct{ method, text string }

func (e *serverError) Error() string {
	return e.method + ": the server answers " + e.text
}

// newServerError parses the "error" of a reply: null, a string, or <error> of RFC
// 7047, section 3.1. It returns nil for null.
func newServerError(method string, text json.RawMessage) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	var e struct{ Error, Details string }
	if json.Unmarshal(text, &e) != nil && json.Unmarshal(text, &e.Error) != nil {
		e.Error = string(text)
	}
	err := &serverError{method: method, text: strconv.Quote(e.Error)}
	if e.Details != "" {
		err.text += ": " + e.Details
	}
	if e.Error == "unknown method" {
		err.text += " (Open vSwitch 2.12 or later is needed)"
	}
	return err
}
