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

// connection is the DNS messages of one TCP connection (RFC 7766). Each goes through the
// chain by itself, beside the others, and is answered as soon as that is done.
type connection struct {
	intake *Intake
	conn   *tcp.Conn
	// open has an element for each query without an answer.
	open chan struct{}
	// before counts the queries that had come before the connection was handed over to it: 0 or 1.
	before int
	// reader has what was received; of the goroutine that reads alone.
	reader *bufio.Reader

	// mu guards what follows.
	mu sync.Mutex
	// ended is set once there will be no further query, and lingers if finish is not to
	// close the connection.
	ended, lingers bool
	// active is when a query was last read or dealt with.
	active time.Time
	// promised is the timeout that the last answer has promised to the guest, in units of keepaliveUnit; -1
	// for none.
	promised int
}

func newConnection(in *Intake, conn *tcp.Conn) *connection {
	return &connection{
		intake: in, conn: conn, reader: bufio.NewReaderSize(conn, readAhead), open: make(chan struct{}, maxOpen),
		active: time.Now(), promised: -1,
	}
}

const (
	// readAhead, in bytes, has room for the queries of some segments: to read each by itself
	// would take three locks of the stack and two timers.
	readAhead = 2048
	// maxOpen is how many queries of a connection are worked on; further ones wait with
	// the guest.
	maxOpen = 32
	// longQuery, in bytes, is more than a query needs. There is room for few longer ones
	// at a time: as long as it is worked on, such a query counts parsedSize times, which is
	// what its smallest options take when parsed.
	longQuery  = 4096
	parsedSize = 16
	// roomTime is how long a long query may wait for room: until others have their answer.
	roomTime = answerDeadline + 500*time.Millisecond
)

// errNoRoom is for a long query that found no room for roomTime.
var errNoRoom = errors.New("no room for a long query")

// accept takes connections until the stack is closed.
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

// serve reads the queries of a connection until the guest has no more, says nothing for
// too long, or breaks the protocol.
func (c *connection) serve() {
	defer c.finish()
	defer func() {
		if r := recover(); r != nil {
			c.conn.Close() // whatever is still open
			c.intake.bridge.Tally.TCPQuery(metric.Dropped, metric.ReasonPanic)
			log.Errorf("Recovered from a panic over a TCP connection of bridge %s: %v\n%s", c.intake.bridge.Name, r, debug.Stack())
		}
	}()
	for n := 1 + c.before; c.next(n); n++ {
	}
}

// next reads the query number n, from 1, and answers it. It reports whether another query may follow.
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

// await waits for the first byte of a query, until the connection has been idle for too
// long.
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
		// Answers that have been given meanwhile have put it off.
		if now := time.Now(); !c.idleUntil(idle, now).After(now) {
			return err
		}
	}
	return nil
}

// touch restarts the idle time of the connection.
func (c *connection) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = time.Now()
}

// promise records the timeout that an answer promises to the guest.
func (c *connection) promise(units int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised = units
}

// idleUntil returns when the connection has been idle for too long: idle after the last
// query was dealt with, and not before the time that the guest was promised.
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

// read reads the rest of a message whose first byte has been read: two bytes of length and
// as many as they say (RFC 1035, section 4.2.2), within whole. Of a long one it returns
// how much is reserved for it, too.
func (c *connection) read(whole time.Duration) (message []byte, reserved int, err error) {
	until := time.Now().Add(whole)
	c.readBy(2, until)
	length, err := c.reader.Peek(2)
	if err != nil {
		return nil, 0, err
	}
	n := int(binary.BigEndian.Uint16(length))
	_, _ = c.reader.Discard(2) // they are there
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

// readBy sets the deadline of the next n bytes, unless they have been read ahead.
func (c *connection) readBy(n int, until time.Time) {
	if c.reader.Buffered() < n {
		_ = c.conn.SetReadDeadline(until) // has no errors
	}
}

// linger ends a connection whose guest may go on asking. When all queries have been dealt with,
// it closes the connection for writing, and discards what still comes for as long as wait. To
// close it at once would reset it, and the guest might not get the last answers.
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

// query admits a message, or rejects it. It has an element of open.
func (c *connection) query(payload []byte, reserved int, last bool) {
	p := c.conn.Peer().(*peer) // there are no others
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

// message is a DNS message of a connection, and the transport of its exchange.
type message struct {
	tcpQuery
	connection *connection
	// reserved, in bytes, is what a long message holds of the stack's room for them.
	reserved int
	// last is set if the connection takes no further message.
	last bool
}

// run takes the message through its chain.
func (m *message) run() {
	defer m.exchange.end()
	if m.exchange.validate() {
		m.exchange.ask()
	}
}

// rejectMessage deals with a message of a connection that was not admitted.
func (x *Exchange) rejectMessage(reason string) {
	defer x.end()
	if accept(x.payload) != acceptQuery {
		x.drop(reason)
		return
	}
	x.reject(reason)
}

// send implements transport.
func (m *message) send(b *buffer, deadline time.Time) error {
	return m.connection.send(b, deadline)
}

// atDeadline implements transport.
func (m *message) atDeadline(answer func()) {
	m.answerBeside(&m.connection.intake.done, answer, m.release)
}

// release ends the message after its last goroutine.
func (m *message) release() {
	if m.leave() {
		m.connection.conn.Release(m.reserved)
		m.connection.end()
	}
}

// end records that a query has been dealt with.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	<-c.open
	c.active = time.Now()
	if c.ended && len(c.open) == 0 {
		c.conn.Close()
	}
}

// finish closes the connection once all queries have been dealt with: a guest may close its
// side after its last query, and still wait for the answers.
func (c *connection) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; len(c.open) == 0 && !c.lingers {
		c.conn.Close()
	}
}

// send sends b.answer. An answer that the guest has no room for waits here, until then.
func (c *connection) send(b *buffer, until time.Time) error { return c.conn.Send(b.prefixed(), until) }

// prefixed returns the answer as it is sent over TCP, behind its length.
func (b *buffer) prefixed() []byte {
	b.frame = binary.BigEndian.AppendUint16(b.frame[:0], uint16(len(b.answer)))
	b.frame = append(b.frame, b.answer...)
	return b.frame
}
