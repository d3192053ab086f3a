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

// Read is as of a net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.gonet.Read(b) }

// SetReadDeadline is as of a net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.gonet.SetReadDeadline(t) }

// Send sends b as a whole, beside other calls of Send. Where more than 160 KiB would be
// under way that the peer has not acknowledged, it waits until then; not at all if that
// is past, or if too much waits already. If there is no room in time, the connection is
// reset, and the error is [ErrSlow].
func (c *Conn) Send(b []byte, until time.Time) error {
	if !c.stack.hold(c.flow.key.Network, len(b)) {
		return c.slow()
	}
	defer c.stack.letGo(c.flow.key.Network, len(b))
	mayWait := time.Now().Before(until)
	if mayWait {
		// The one before waits no longer than until its own time.
		c.sending.Lock()
	} else if !c.sending.TryLock() {
		return c.slow()
	}
	defer c.sending.Unlock()
	n, err := c.endpoint.Write(bytes.NewReader(b), tcpip.WriteOptions{})
	switch err.(type) {
	case nil:
	case *tcpip.ErrWouldBlock:
	default:
		return fmt.Errorf("TCP: %s", err)
	}
	if int(n) == len(b) {
		return nil
	}
	if !mayWait {
		return c.slow()
	}
	_ = c.gonet.SetWriteDeadline(until) // has no errors
	_, e := c.gonet.Write(b[n:])
	if timeout := net.Error(nil); errors.As(e, &timeout) && timeout.Timeout() {
		return c.slow()
	}
	return e
}

func (c *Conn) slow() error {
	c.endpoint.Abort()
	return ErrSlow
}

// Close ends the connection. What was sent before still gets to the peer, unless that
// has sent something that nobody has read: then it is reset.
func (c *Conn) Close() {
	c.close.Do(func() {
		c.endpoint.Close()
		c.stack.mu.Lock()
		if c.flow.conn == c {
			c.flow.ended = time.Now()
		}
		c.stack.mu.Unlock()
	})
}
