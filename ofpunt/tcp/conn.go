// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// ErrSlow: the peer has not acknowledged enough in time for what it was to be sent, and
// the connection was reset.
var ErrSlow = errors.New("the peer does not read what it is sent")

// Conn is one connection.
type Conn struct {
	stack    *Stack
	flow     *flow
	endpoint tcpip.Endpoint
	gonet    *gonet.TCPConn
	close    sync.Once
	// sending is held by the one that sends: a message must not begin within another.
	sending sync.Mutex
}

func newConn(s *Stack, f *flow, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	return &Conn{stack: s, flow: f, endpoint: ep, gonet: gonet.NewTCPConn(queue, ep)}
}

// Peer is that of the last segment.
func (c *Conn) Peer() Peer { return c.flow.peer() }

// Src is the peer's end of the connection, Dst ours.
func (c *Conn) Src() netip.AddrPort { return c.flow.key.Src }

// Dst is our end of the connection.
func (c *Conn) Dst() netip.AddrPort { return c.flow.key.Dst }

// Read is as of a net.Conn. Urgent data is skipped.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		n, err := c.gonet.Read(b)
		left := c.flow.urgent.strip(b[:n])
		if left > 0 || n == 0 || err != nil {
			return left, err
		}
	}
}

// SetReadDeadline is as of a net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.gonet.SetReadDeadline(t) }

// Send sends b as a whole, beside other calls of Send, which take their turns. Where more
// than 160 KiB would be under way that the peer has not acknowledged, it waits until then,
// but at least for a second from its turn on. If there is no room in time, or if too much
// waits already, the connection is reset, and the error is [ErrSlow].
func (c *Conn) Send(b []byte, until time.Time) error {
	wait := c.stack.waiting
	if c.sending.TryLock() {
		defer c.sending.Unlock()
		rest, err := c.write(b)
		if err != nil || len(rest) == 0 {
			return err
		}
		if !wait.take(c.flow.key, len(rest)) {
			return c.slow()
		}
		defer wait.giveBack(c.flow.key, len(rest))
		return c.writeBy(rest, until)
	}
	if !wait.take(c.flow.key, len(b)) {
		return c.slow()
	}
	defer wait.giveBack(c.flow.key, len(b))
	// Each of those before has a time of its own, and ends the connection after that.
	c.sending.Lock()
	defer c.sending.Unlock()
	rest, err := c.write(b)
	if err != nil || len(rest) == 0 {
		return err
	}
	return c.writeBy(rest, until)
}

// write writes what there is room for and returns the rest.
func (c *Conn) write(b []byte) (rest []byte, err error) {
	n, e := c.endpoint.Write(bytes.NewReader(b), tcpip.WriteOptions{})
	switch e.(type) {
	case nil, *tcpip.ErrWouldBlock:
		return b[n:], nil
	}
	return nil, fmt.Errorf("TCP: %s", e)
}

// writeBy writes b as the peer makes room for it.
func (c *Conn) writeBy(b []byte, until time.Time) error {
	if least := time.Now().Add(leastWait); until.Before(least) {
		until = least
	}
	_ = c.gonet.SetWriteDeadline(until) // has no errors
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

// CloseWrite tells the peer that there is nothing more to come. What it still sends can
// be read.
func (c *Conn) CloseWrite() { _ = c.gonet.CloseWrite() } // the peer may have ended the connection

// Reserve takes n bytes for what is read, until they are released, and waits for them. It
// reports whether they were there in time, and before the stack was closed.
func (c *Conn) Reserve(n int, until time.Time) bool {
	return c.stack.reading.await(c.flow.key, n, until, c.stack.done)
}

// Release gives back n bytes that were reserved, which may be none.
func (c *Conn) Release(n int) {
	if n > 0 { // most messages are short, and the budget has one lock for all
		c.stack.reading.giveBack(c.flow.key, n)
	}
}

// Crowded reports whether few further connections of the owner, or of the network, have
// room.
func (c *Conn) Crowded() bool {
	c.stack.mu.Lock()
	defer c.stack.mu.Unlock()
	return c.flow.in.crowded()
}

// Close ends the connection. What was sent before still gets to the peer, unless that
// has sent something that nobody has read: then it is reset.
func (c *Conn) Close() {
	c.close.Do(func() {
		c.endpoint.Close()
		c.stack.mu.Lock()
		if c.flow.conn == c && c.stack.flows[c.flow.key] == c.flow {
			c.flow.end(time.Now())
		}
		c.stack.mu.Unlock()
	})
}
