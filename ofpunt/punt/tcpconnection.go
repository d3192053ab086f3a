// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// connection is a TCP connection after the first query (RFC 7766). Answers may be out of order.
type connection struct {
	intake *Intake
	conn   *tcp.Conn
	// open has an element for each query without an answer.
	open chan struct{}
	// queries before the handover: 0 or 1
	before int
	// used by serve's goroutine only
	reader *bufio.Reader

	// mu guards what follows.
	mu sync.Mutex
	// ended is set after the last query. lingers is set if linger closes the connection.
	ended, lingers bool
	// when a query was last read or ended
	active time.Time
	// timeout in the last answer, in keepaliveUnit; -1 for none
	promised int
}

func newConnection(in *Intake, conn *tcp.Conn) *connection {
	return &connection{
		intake: in, conn: conn, reader: bufio.NewReaderSize(conn, readAhead), open: make(chan struct{}, maxOpen),
		active: time.Now(), promised: -1,
	}
}

const (
	// readAhead, in bytes, holds several queries: each read costs three locks of the stack and two timers.
	readAhead = 2048
	// maxOpen bounds a connection's queries in flight. Further queries wait in the receive window.
	maxOpen = 32
	// A query above longQuery bytes reserves parsedSize times its length, the size of its smallest options when
	// parsed.
	longQuery  = 4096
	parsedSize = 16
	// roomTime bounds a long query's wait for memory, until other queries have their answers.
	roomTime = answerDeadline + 500*time.Millisecond
)

var errNoRoom = errors.New("no room for a long query")

// accept runs until the stack is closed.
func (in *Intake) accept() {
	for {
		conn, err := in.tcp.Accept()
		if err != nil {
			return
		}
		c := newConnection(in, conn)
		if first, ok := conn.TakeRequest().(*firstRecord); ok {
			first.handOver(c)
		}
		in.done.Go(c.serve)
	}
}

// serve reads queries until the guest closes, is idle for too long, or breaks the protocol.
func (c *connection) serve() {
	defer c.finish()
	defer func() {
		if r := recover(); r != nil {
			c.conn.Close() // even with queries in flight
			c.intake.bridge.Tally.TCPQuery(metric.Dropped, metric.ReasonPanic)
			log.Errorf("Recovered from a panic over a TCP connection of bridge %s: %v\n%s", c.intake.bridge.Name, r, debug.Stack())
		}
	}()
	for n := 1 + c.before; c.next(n); n++ {
	}
}

// next reads and starts query n, from 1. It reports whether another query may follow.
func (c *connection) next(n int) bool {
	s := c.intake.server.Load()
	if s.MaxTCPQueries >= 0 && n > s.MaxTCPQueries {
		c.linger(s.ReadTimeout)
		return false
	}
	if err := c.await(n == 1); err != nil {
		return false
	}
	payload, reserved, err := c.read(s.ReadTimeout)
	if errors.Is(err, errNoRoom) {
		c.linger(s.ReadTimeout)
	}
	if err != nil {
		return false
	}
	select {
	case c.open <- struct{}{}:
	case <-c.intake.ctx.Done():
		c.conn.Release(reserved)
		return false
	}
	c.query(payload, reserved, n == s.MaxTCPQueries)
	c.touch()
	return true
}

func (c *connection) await(first bool) error {
	for c.reader.Buffered() == 0 {
		s := c.intake.server.Load()
		idle := s.ReadTimeout
		if !first {
			idle = s.IdleTimeout
		}
		until := c.idleUntil(idle, time.Now())
		_ = c.conn.SetReadDeadline(until) // has no errors
		_, err := c.reader.Peek(1)
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			return err
		}
		// Answers restart the idle time.
		if now := time.Now(); !c.idleUntil(idle, now).After(now) {
			return err
		}
	}
	return nil
}

func (c *connection) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = time.Now()
}

func (c *connection) promise(units int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised = units
}

// idleUntil returns when the connection times out: idle after the last query, and not before the promised time.
func (c *connection) idleUntil(idle time.Duration, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.promised == 0:
		idle = closeWait
	case c.promised > 0:
		idle = max(idle, time.Duration(c.promised)*keepaliveUnit) + keepaliveMargin
	}
	if len(c.open) > 0 {
		return now.Add(idle)
	}
	return c.active.Add(idle)
}

// read reads a message with its length (RFC 1035, section 4.2.2) within whole. reserved is for a long message.
func (c *connection) read(whole time.Duration) (message []byte, reserved int, err error) {
	until := time.Now().Add(whole)
	c.readBy(2, until)
	length, err := c.reader.Peek(2)
	if err != nil {
		return nil, 0, err
	}
	n := int(binary.BigEndian.Uint16(length))
	_, _ = c.reader.Discard(2) // buffered
	if n > longQuery {
		reserved = parsedSize * n
		if !c.conn.Reserve(reserved, time.Now().Add(roomTime)) {
			return nil, 0, errNoRoom
		}
		until = time.Now().Add(whole)
	}
	c.readBy(n, until)
	message = make([]byte, n)
	if _, err := io.ReadFull(c.reader, message); err != nil {
		c.conn.Release(reserved)
		return nil, 0, err
	}
	return message, reserved, nil
}

func (c *connection) readBy(n int, until time.Time) {
	if c.reader.Buffered() < n {
		_ = c.conn.SetReadDeadline(until) // has no errors
	}
}

// linger closes for writing after the last answer, and discards input for the duration wait. Close would reset the
// connection, and the guest might lose answers.
func (c *connection) linger(wait time.Duration) {
	c.mu.Lock()
	c.lingers = true
	c.mu.Unlock()
	defer c.conn.Close()
	for range maxOpen {
		select {
		case c.open <- struct{}{}:
		case <-c.intake.ctx.Done():
			return
		}
	}
	c.conn.CloseWrite()
	_ = c.conn.SetReadDeadline(time.Now().Add(wait)) // has no errors
	_, _ = io.Copy(io.Discard, c.conn)
}

// query has an element of open.
func (c *connection) query(payload []byte, reserved int, last bool) {
	p := c.conn.Peer().(*peer) // the only implementation
	for {
		s := c.intake.server.Load()
		m := &message{connection: c, reserved: reserved, last: last}
		m.init()
		x := &m.exchange
		x.init(s, m, &p.sender)
		x.payload = payload
		if reason := s.admission.admit(x, s.ConcurrentGuest); reason != "" {
			x.countLimit(reason)
			x.rejectMessage(reason)
			return
		}
		// See Channel.query.
		if s == c.intake.server.Load() {
			p.channel.pending.Add(1)
			c.intake.workers.serve(m)
			return
		}
		s.admission.release(x)
	}
}

type message struct {
	tcpQuery
	connection *connection
	// bytes of tcp.Conn.Reserve
	reserved int
	// the connection takes no further message
	last bool
}

func (m *message) run() {
	defer m.exchange.end()
	if m.exchange.validate() {
		m.exchange.ask()
	}
}

func (x *Exchange) rejectMessage(reason string) {
	defer x.end()
	if accept(x.payload) != acceptQuery {
		x.drop(reason)
		return
	}
	x.reject(reason)
}

func (m *message) send(b *buffer, deadline time.Time) error {
	return m.connection.send(b, deadline)
}

func (m *message) atDeadline(answer func()) {
	m.answerBeside(&m.connection.intake.done, answer, m.release)
}

func (m *message) release() {
	if m.leave() {
		m.connection.conn.Release(m.reserved)
		m.connection.end()
	}
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	<-c.open
	c.active = time.Now()
	if c.ended && len(c.open) == 0 {
		c.conn.Close()
	}
}

// finish waits for the last answer: a guest may close its side after its last query.
func (c *connection) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; len(c.open) == 0 && !c.lingers {
		c.conn.Close()
	}
}

func (c *connection) send(b *buffer, until time.Time) error { return c.conn.Send(b.prefixed(), until) }

func (b *buffer) prefixed() []byte {
	b.frame = binary.BigEndian.AppendUint16(b.frame[:0], uint16(len(b.answer)))
	b.frame = append(b.frame, b.answer...)
	return b.frame
}
