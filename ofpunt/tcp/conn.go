// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// ErrSlow is the error of Send when the peer has not acknowledged enough in time, and the
// connection was reset.
var ErrSlow = errors.New("the peer does not read what it is sent")

// Conn is one connection.
type Conn struct {
	stack    *Stack
	flow     *flow
	endpoint tcpip.Endpoint
	gonet    *gonet.TCPConn
	close    sync.Once
	request  any // what Request.Keep was given, nil for none and once it was taken
	// sending is held while messages are sent, so that no other begins within one.
	sending sync.Mutex
	// mu guards what follows.
	mu sync.Mutex
	// batch has the messages that the call of Send which has begun it is about to send; nil for none.
	batch *[]byte
}

func newConn(s *Stack, f *flow, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	return &Conn{stack: s, flow: f, endpoint: ep, gonet: gonet.NewTCPConn(queue, ep), request: f.request}
}

// TakeRequest returns what Request.Keep was given for the first request of the connection, nil if the
// handler has taken none: then the first one is still to be read. It is not kept: further calls
// return nil. There must be no two calls at a time.
func (c *Conn) TakeRequest() any {
	v := c.request
	c.request = nil
	return v
}

// Peer returns the peer of the last segment that has come.
func (c *Conn) Peer() Peer { return c.flow.peer() }

// Src is the peer's end of the connection, Dst ours.
func (c *Conn) Src() netip.AddrPort { return c.flow.key.Src }

// Dst is our end of the connection.
func (c *Conn) Dst() netip.AddrPort { return c.flow.key.Dst }

// Read implements net.Conn. It skips urgent data.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		n, err := c.gonet.Read(b)
		left := c.flow.urgent.strip(b[:n])
		if left > 0 || n == 0 || err != nil {
			return left, err
		}
	}
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.gonet.SetReadDeadline(t) }

// maxBatch, in bytes, bounds the messages of a connection that are sent together. One that is longer
// is sent by itself.
const maxBatch = 8 << 10

// batches have room for maxBatch bytes each.
var batches = sync.Pool{New: func() any { b := make([]byte, 0, maxBatch); return &b }}

// Send sends b as a whole. Concurrent calls send one after the other. Messages of several calls may leave in
// one segment: then the first of the calls sends them, and the others return at once, as if the send buffer
// had had room.
//
// Send blocks while the peer has not acknowledged 160 KiB, until the deadline, but at least for a second
// after the calls before it. If there is no room in time, or too many bytes wait for room, Send resets the
// connection and returns [ErrSlow].
func (c *Conn) Send(b []byte, deadline time.Time) error {
	switch c.join(b) {
	case joined:
		return nil
	case alone:
		if err := c.begin(len(b)); err != nil {
			return err
		}
		defer c.sending.Unlock()
		return c.send(b, deadline)
	}
	// Others that are about to send may join: a segment costs the switch and the peer more than
	// the message in it.
	runtime.Gosched()
	err := c.begin(len(b))
	batch := c.takeBatch()
	defer putBatch(batch)
	if err != nil {
		return err
	}
	defer c.sending.Unlock()
	return c.send(*batch, deadline)
}

// joining is what became of a message that was to join others.
type joining uint8

const (
	joined  joining = iota // the call that begins the batch sends it
	leading                // the caller begins a batch
	alone                  // there is no room in the batch
)

// join adds a message to the messages that are sent together.
func (c *Conn) join(b []byte) joining {
	if len(b) > maxBatch {
		return alone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil {
		c.batch = batches.Get().(*[]byte)
		*c.batch = append(*c.batch, b...)
		return leading
	}
	if len(*c.batch)+len(b) > maxBatch {
		return alone
	}
	*c.batch = append(*c.batch, b...)
	return joined
}

// takeBatch returns the messages that have been joined. The next one begins another batch.
func (c *Conn) takeBatch() *[]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.batch
	c.batch = nil
	return batch
}

func putBatch(batch *[]byte) {
	*batch = (*batch)[:0]
	batches.Put(batch)
}

// begin waits until no other call sends, and locks sending. n bytes wait meanwhile, beside those that
// join them.
func (c *Conn) begin(n int) error {
	if c.sending.TryLock() {
		return nil
	}
	if !c.stack.unsent.acquire(c.flow.key, n) {
		return c.slow()
	}
	// The goroutine with the lock has a deadline, and resets the connection after it.
	c.sending.Lock()
	c.stack.unsent.release(c.flow.key, n)
	return nil
}

// send sends b as a whole. sending is held.
func (c *Conn) send(b []byte, deadline time.Time) error {
	rest, err := c.write(b)
	if err != nil || len(rest) == 0 {
		return err
	}
	if !c.stack.unsent.acquire(c.flow.key, len(rest)) {
		return c.slow()
	}
	defer c.stack.unsent.release(c.flow.key, len(rest))
	return c.writeBy(rest, deadline)
}

// write writes what the send buffer has room for, and returns the rest.
func (c *Conn) write(b []byte) (rest []byte, err error) {
	n, e := c.endpoint.Write(bytes.NewReader(b), tcpip.WriteOptions{})
	switch e.(type) {
	case nil, *tcpip.ErrWouldBlock:
		return b[n:], nil
	}
	return nil, fmt.Errorf("TCP: %s", e)
}

// writeBy writes b as the peer makes room for it, until the deadline.
func (c *Conn) writeBy(b []byte, deadline time.Time) error {
	if earliest := time.Now().Add(minSendTimeout); deadline.Before(earliest) {
		deadline = earliest
	}
	_ = c.gonet.SetWriteDeadline(deadline) // has no errors
	_, err := c.gonet.Write(b)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return c.slow()
	}
	return err
}

// slow resets the connection.
func (c *Conn) slow() error {
	c.endpoint.Abort()
	return ErrSlow
}

// CloseWrite sends a FIN after what was sent. What the peer still sends can be read.
func (c *Conn) CloseWrite() { _ = c.gonet.CloseWrite() } // it fails where the peer has reset the connection

// Reserve waits until n bytes of memory are free for reading, and reserves them until Release. It reports
// whether they were free before the deadline, and before the stack was closed.
func (c *Conn) Reserve(n int, deadline time.Time) bool {
	return c.stack.reserved.acquireWait(c.flow.key, n, deadline, c.stack.done)
}

// Release releases n bytes that were reserved, which may be 0.
func (c *Conn) Release(n int) {
	if n > 0 { // most messages are short and reserve nothing, and the budget has one lock for all
		c.stack.reserved.release(c.flow.key, n)
	}
}

// Crowded reports whether the owner or the network has room for few further connections: a quarter of its
// limit, or less.
func (c *Conn) Crowded() bool { return c.stack.crowded(c.flow) }

func (s *Stack) crowded(f *flow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.counts.crowded()
}

// Close closes the connection. What was sent before still gets to the peer. But if the
// peer has sent something that was not read, the connection is reset.
func (c *Conn) Close() {
	c.close.Do(func() {
		c.endpoint.Close()
		c.stack.mu.Lock()
		if c.flow.conn == c && !c.flow.removed {
			c.flow.end(time.Now())
		}
		c.stack.mu.Unlock()
	})
}
