// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// ErrSlow: more than 160 KiB would be under way that the peer has not acknowledged, and
// the connection was reset.
var ErrSlow = errors.New("the peer does not read what it is sent")

// Conn is one connection.
type Conn struct {
	stack    *Stack
	flow     *flow
	endpoint tcpip.Endpoint
	reader   *gonet.TCPConn
	close    sync.Once
}

func newConn(s *Stack, f *flow, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	return &Conn{stack: s, flow: f, endpoint: ep, reader: gonet.NewTCPConn(queue, ep)}
}

// Peer is that of the last segment.
func (c *Conn) Peer() Peer { return c.flow.peer() }

// Src is the peer's end of the connection, Dst ours.
func (c *Conn) Src() netip.AddrPort { return c.flow.key.Src }

// Dst is our end of the connection.
func (c *Conn) Dst() netip.AddrPort { return c.flow.key.Dst }

// Read is as of a net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// SetReadDeadline is as of a net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reader.SetReadDeadline(t) }

// Send sends b as a whole, beside other calls of Send. It does not wait: for a peer
// that has too much to acknowledge the connection ends, and the error is [ErrSlow].
func (c *Conn) Send(b []byte) error {
	n, err := c.endpoint.Write(bytes.NewReader(b), tcpip.WriteOptions{Atomic: true})
	switch err.(type) {
	case nil:
		if int(n) == len(b) {
			return nil
		}
	case *tcpip.ErrWouldBlock:
	default:
		return fmt.Errorf("TCP: %s", err)
	}
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
