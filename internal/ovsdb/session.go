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
)

// session is one connection. Only the goroutine of Client.Run uses it: it reads, and
// writes between reads. At most one request is outstanding beside an echo request.
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
	// canceling is set while the outstanding request is to end the main monitor.
	canceling bool
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

// watchServer monitors the database's row in _Server, which older servers lack.
func (s *session) watchServer() error {
	s.server = &serverRow{
		database: s.client.cfg.Database, clusterIndex: s.client.clusterIndex,
		tell: func(now ServerState) { s.client.server.Store(&now) },
	}
	m := &monitor{id: serverID, tables: serverTables, row: s.server.update}
	where, err := encodeWhere([]Condition{{Column: "name", Function: "==", Value: s.client.cfg.Database}})
	if err != nil {
		return err
	}
	if err := s.startMonitor(m, "_Server", map[string]json.RawMessage{"Database": where}); err != nil {
		var refused *serverError
		if errors.As(err, &refused) {
			s.server = nil
			return nil
		}
		return err
	}
	return s.server.check()
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
	s.main = &monitor{id: mainID, tables: tables, row: c.cfg.Receiver.Row}
	if err := s.readMain(); err != nil {
		return err
	}
	s.onSync()
	return nil
}

// readMain starts the main monitor, which is not running, and delivers its initial contents.
func (s *session) readMain() error {
	c := s.client
	now, where, err := c.conditions(s.main.tables)
	if err != nil {
		return err
	}
	s.synced = false
	c.cfg.Receiver.Reset()
	if err := s.startMonitor(s.main, c.cfg.Database, where); err != nil {
		return err
	}
	s.asked, s.where, s.synced = now, where, true
	if s.server != nil {
		s.server.noteRead()
	}
	c.cfg.Receiver.Conditions(now.gen)
	c.cfg.Receiver.Commit()
	return nil
}

// startMonitor sends monitor_cond and delivers the initial contents.
func (s *session) startMonitor(m *monitor, database string, where map[string]json.RawMessage) error {
	type request struct {
		Columns []string        `json:"columns"`
		Where   json.RawMessage `json:"where"`
	}
	requests := make(map[string][]request, len(m.tables))
	for name, t := range m.tables {
		// Never null, which would ask for all columns.
		requests[name] = []request{{append([]string{}, t.names...), where[name]}}
	}
	s.dec.initial = m
	if !slices.Contains(s.dec.updates, m) {
		s.dec.updates = append(s.dec.updates, m)
	}
	if m == s.main {
		// The one row of _Server needs no such deadline: it is small.
		s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	}
	_, err := s.call("monitor_cond", database, json.RawMessage(m.id), requests)
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
	text, err := json.Marshal(map[string]any{
		"method": method,
		"params": params,
		"id":     json.RawMessage(s.pending),
	})
	if err != nil {
		return err
	}
	return s.write(text)
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
	case msg.method == "update2" && msg.rows == s.main && s.main != nil:
		// The initial contents come with the reply, and updates only after it.
		if !s.synced {
			return errors.New("an update before the initial contents")
		}
		s.client.cfg.Receiver.Commit()
		return nil
	case msg.method == "update2" && msg.rows != nil:
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

// handleReply handles the reply to the outstanding request, or to an echo request.
func (s *session) handleReply(msg message) error {
	if string(msg.id) == echoID && msg.rows == nil {
		return nil
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
	if err := newServerError("monitor_cond_change", msg.err); err != nil {
		return err
	}
	s.client.cfg.Receiver.Conditions(s.asked.gen)
	s.client.cfg.Receiver.Commit()
	return nil
}

// changeConditions sends what SetConditions has changed since the last time, or begins what
// Reread asks for. A change waits for the reply to the one before it.
func (s *session) changeConditions() error {
	if !s.synced || s.pending != "" || !s.client.changed(s.asked) {
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
	type request struct {
		Where json.RawMessage `json:"where"`
	}
	// Where it is empty, the request is still sent: Receiver.Conditions follows the reply.
	requests := map[string][]request{}
	for table, text := range where {
		if !bytes.Equal(text, s.where[table]) {
			requests[table] = []request{{text}}
		}
	}
	s.asked, s.where = now, where
	s.replyDeadline = time.Now().Add(s.client.cfg.ReplyTimeout)
	return s.request("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), requests)
}

// Read implements io.Reader for the decoder. While no bytes come it sends changes of
// conditions, for which SetConditions and Reread end the read by a deadline in the past, and
// echo requests.
func (s *session) Read(p []byte) (int, error) {
	for {
		if err := s.changeConditions(); err != nil {
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
		wait, err := s.armRead(deadline)
		if err != nil {
			return 0, err
		}
		if !wait {
			continue
		}
		n, err := s.conn.Read(p)
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
			continue // SetConditions or Reread was called
		case s.probed:
			return 0, errors.New("the server is silent and answers no echo request")
		}
		s.silentSince, s.probed = time.Now(), true
		if err := s.write([]byte(`{"method":"echo","params":[],"id":` + echoID + `}`)); err != nil {
			return 0, err
		}
	}
}

// armRead sets the deadline of the next read. It reports false, and sets none, if
// conditions are to be sent first. The lock makes check and deadline one step, so that no
// call of SetConditions or Reread comes between them.
func (s *session) armRead(deadline time.Time) (wait bool, err error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	if s.synced && s.pending == "" && s.asked != (asked{c.gen, c.rereads}) {
		return false, nil
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
	if _, err = s.conn.Write(text); err != nil {
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
type serverError struct {
	method, text string
}

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
	err := &serverError{method, strconv.Quote(e.Error)}
	if e.Details != "" {
		err.text += ": " + e.Details
	}
	if e.Error == "unknown method" {
		err.text += " (Open vSwitch 2.6 or later is needed)"
	}
	return err
}
