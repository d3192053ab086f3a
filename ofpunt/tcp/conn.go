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

// ErrSlow is the error of Send after a reset: the peer has not acknowledged enough in time.
var ErrSlow = errors.New("the peer does not read what it is sent")

// Conn is a TCP connection.
type Conn struct {
	stack    *Stack
	flow     *flow
	endpoint tcpip.Endpoint
	gonet    *gonet.TCPConn
	close    sync.Once
	request  any // of Request.Keep, nil for none and after TakeRequest
	// sending serializes messages.
	sending sync.Mutex
	// mu guards what follows.
	mu sync.Mutex
	// messages of the leading Send, nil for none
	batch *[]byte
}

func newConn(s *Stack, f *flow, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	return &Conn{stack: s, flow: f, endpoint: ep, gonet: gonet.NewTCPConn(queue, ep), request: f.request}
}

// TakeRequest returns the argument of Request.Keep once, else nil: Read then returns the request. Calls must not be
// concurrent.
func (c *Conn) TakeRequest() any {
	v := c.request
	c.request = nil
	return v
}

// Peer returns the last segment's peer.
func (c *Conn) Peer() Peer { return c.flow.peer() }

// Src returns the peer's end of the connection.
func (c *Conn) Src() netip.AddrPort { return c.flow.key.Src }

// Dst returns our end of the connection.
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

// maxBatch, in bytes, bounds a batch.
const maxBatch = 8 << 10

var batches = sync.Pool{New: func() any { b := make([]byte, 0, maxBatch); return &b }}

// Send sends b as a whole. One of several concurrent calls may send the messages of the others, which return, in
// one segment.
//
// Send blocks while the send buffer of 160 KiB is full, until the deadline, at least for a second. Without room in
// time, or if too many bytes wait, Send resets the connection and returns [ErrSlow].
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
	// Let other calls join: a segment costs more than its message.
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

type joining uint8

const (
	joined joining = iota
	leading
	alone // no room
)

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

// n bytes count as unsent while begin waits.
func (c *Conn) begin(n int) error {
	if c.sending.TryLock() {
		return nil
	}
	if !c.stack.unsent.acquire(c.flow.key, n) {
		return c.slow()
	}
	// The lock's holder resets the connection at its deadline.
	c.sending.Lock()
	c.stack.unsent.release(c.flow.key, n)
	return nil
}

// sending is held.
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

// write returns what the send buffer has no room for.
func (c *Conn) write(b []byte) (rest []byte, err error) {
	n, e := c.endpoint.Write(bytes.NewReader(b), tcpip.WriteOptions{})
	switch e.(type) {
	case nil, *tcpip.ErrWouldBlock:
		return b[n:], nil
	}
	return nil, fmt.Errorf("TCP: %s", e)
}

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

func (c *Conn) slow() error {
	c.endpoint.Abort()
	return ErrSlow
}

// CloseWrite sends a FIN. Reading goes on.
func (c *Conn) CloseWrite() { _ = c.gonet.CloseWrite() } // it fails if the peer has reset the connection

// Reserve waits for n bytes of memory for reading, until Release. It reports false at the deadline and after
// Stack.Close.
func (c *Conn) Reserve(n int, deadline time.Time) bool {
	return c.stack.reserved.acquireWait(c.flow.key, n, deadline, c.stack.done)
}

// Release releases n reserved bytes; n may be 0.
func (c *Conn) Release(n int) {
	if n > 0 { // saves the common lock for short messages
		c.stack.reserved.release(c.flow.key, n)
	}
}

// Crowded reports whether the owner or the network has used three quarters of its limit.
func (c *Conn) Crowded() bool { return c.stack.crowded(c.flow) }

func (s *Stack) crowded(f *flow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.counts.crowded()
}

// Close closes the connection after sent data, or resets it if data is unread.
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
