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
	"strconv"
	"syscall"
	"time"
)

// The monitors of a connection. The one of _Server tells about the server's place
// in a cluster. There is one for all tables: rows of monitors that overlap would
// be told twice.
const (
	mainID   = `"puntdns"`
	serverID = `"puntdns-server"`
	echoID   = `"echo"`
)

// session is one connection, worked by one goroutine: it reads, and writes
// between reads. At most one request is under way beside an echo.
type session struct {
	ctx    context.Context
	client *Client
	conn   net.Conn
	dec    decoder
	onSync func()

	main   *monitor
	server *serverRow

	lastID  int
	pending string // id of the request under way
	reply   message

	synced bool
	// gen and where are the conditions that were sent last.
	gen   uint64
	where map[string]json.RawMessage

	// quiet is when the peer's silence began, or was probed; patience is until
	// when silence is expected.
	quiet, patience time.Time
	probed          bool
}

func newSession(ctx context.Context, c *Client, conn net.Conn, onSync func()) *session {
	s := &session{ctx: ctx, client: c, conn: conn, onSync: onSync, quiet: time.Now()}
	s.dec.scanner, s.dec.maxRow = newScanner(s), maxRow
	return s
}

// run ends with an error, since a connection has no other end.
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
	s.server = &serverRow{database: s.client.cfg.Database, leaderOnly: s.client.cfg.LeaderOnly, seen: s.client.seen}
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

func (s *session) serverChanged() error {
	if s.server == nil {
		return nil
	}
	if err := s.server.check(); err != nil {
		return err
	}
	if s.synced {
		s.server.read()
	}
	return nil
}

// openMain asks for the tables and takes in their initial contents.
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
	gen, where, err := c.conditions(tables)
	if err != nil {
		return err
	}
	c.cfg.Receiver.Reset()
	s.main = &monitor{id: mainID, tables: tables, row: c.cfg.Receiver.Row}
	if err := s.startMonitor(s.main, c.cfg.Database, where); err != nil {
		return err
	}
	s.gen, s.where, s.synced = gen, where, true
	if s.server != nil {
		s.server.read()
	}
	c.cfg.Receiver.Conditions(gen)
	c.cfg.Receiver.Commit()
	s.onSync()
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
	s.dec.updates = append(s.dec.updates, m)
	if m == s.main {
		// What _Server has is small, and to leave a server that keeps it back
		// costs nobody anything.
		s.patience = time.Now().Add(s.client.cfg.Initial)
	}
	_, err := s.call("monitor_cond", database, json.RawMessage(m.id), requests)
	s.dec.initial = nil
	return err
}

// call sends a request and works until its reply.
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

// step reads one message and does what it asks for.
func (s *session) step() error {
	msg, err := s.dec.next()
	if err != nil {
		return err
	}
	if msg.method != "" {
		return s.notified(msg)
	}
	return s.replied(msg)
}

// notified handles requests and notifications of the server.
func (s *session) notified(msg message) error {
	switch {
	case msg.method == "update2" && msg.rows == s.main && s.main != nil:
		// Initial contents are told by the reply; nothing can be told before it.
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

// replied handles the reply to the request under way.
func (s *session) replied(msg message) error {
	if string(msg.id) == echoID && msg.rows == nil {
		return nil
	}
	if s.pending == "" || string(msg.id) != s.pending {
		return fmt.Errorf("a reply to request %.40q, which is not under way", msg.id)
	}
	s.pending, s.reply, s.patience = "", msg, time.Time{}
	if !s.synced {
		return nil // call waits for it
	}
	if err := newServerError("monitor_cond_change", msg.err); err != nil {
		return err
	}
	s.client.cfg.Receiver.Conditions(s.gen)
	s.client.cfg.Receiver.Commit()
	return nil
}

// changeConditions sends what SetConditions has changed since the last time. A
// change waits for the reply to the one before it.
func (s *session) changeConditions() error {
	if !s.synced || s.pending != "" || !s.client.changed(s.gen) {
		return nil
	}
	gen, where, err := s.client.conditions(s.main.tables)
	if err != nil {
		return err
	}
	type request struct {
		Where json.RawMessage `json:"where"`
	}
	// It may stay empty: the reply is still wanted.
	requests := map[string][]request{}
	for table, text := range where {
		if !bytes.Equal(text, s.where[table]) {
			requests[table] = []request{{text}}
		}
	}
	s.gen, s.where = gen, where
	s.patience = time.Now().Add(s.client.cfg.Initial)
	return s.request("monitor_cond_change", json.RawMessage(mainID), json.RawMessage(mainID), requests)
}

// Read gives the decoder its bytes. While there are none it sends changes of
// conditions and probes: a read that waits is ended by a deadline in the past.
func (s *session) Read(p []byte) (int, error) {
	for {
		if err := s.changeConditions(); err != nil {
			return 0, err
		}
		limit := s.client.cfg.Probe
		if s.probed && s.synced {
			limit = s.client.cfg.Dead
		}
		deadline := s.quiet.Add(limit)
		if s.patience.After(deadline) {
			deadline = s.patience
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
			s.quiet, s.probed = time.Now(), false
			return n, nil
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		case s.ctx.Err() != nil:
			return 0, s.ctx.Err()
		case time.Now().Before(deadline):
			continue // woken
		case s.probed:
			return 0, errors.New("the server is silent and answers no echo request")
		}
		s.quiet, s.probed = time.Now(), true
		if err := s.write([]byte(`{"method":"echo","params":[],"id":` + echoID + `}`)); err != nil {
			return 0, err
		}
	}
}

// armRead sets the read's deadline, unless there is something to do first. The
// lock keeps a wake-up from falling between the two.
func (s *session) armRead(deadline time.Time) (wait bool, err error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	if s.synced && s.pending == "" && c.gen != s.gen {
		return false, nil
	}
	return true, s.conn.SetReadDeadline(deadline)
}

func (s *session) write(text []byte) error {
	c := s.client
	c.mu.Lock()
	err := s.ctx.Err()
	if err == nil {
		// As patient as with an answer: a busy server reads late.
		err = s.conn.SetWriteDeadline(time.Now().Add(c.cfg.Initial))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err = s.conn.Write(text); err != nil {
		return s.refusal(err)
	}
	return nil
}

// refusal finds out why a write failed. A server that does not like our certificate
// says so once the handshake is over for us; by then it may have hung up on what
// we write.
func (s *session) refusal(failed error) error {
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

// ended gives one text to a connection that the server has ended, whether a read
// or a write finds out, and when.
func ended(err error) error {
	for _, is := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, is) {
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

// newServerError reads the "error" of a reply: null, a string, or <error> of RFC
// 7047 section 3.1.
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
