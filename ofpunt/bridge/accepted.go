// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// acceptedTimeout bounds the wait for a session. Open vSwitch itself closes a connection without a handshake after 1
// s to 8 s, and reconnects (lib/rconn.c).
const acceptedTimeout = 5 * time.Second

type acceptKey struct {
	at  endpoint.Endpoint
	tls endpoint.TLSFiles
}

// acceptedConns has connections that switches made during the trial of a Corefile, for the sessions of that Corefile.
type acceptedConns struct {
	mu sync.Mutex
	m  map[acceptKey]net.Conn // guarded by mu
}

// put closes conn after acceptedTimeout unless take returned it.
func (c *acceptedConns) put(k acceptKey, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[acceptKey]net.Conn{}
	}
	if was := c.m[k]; was != nil {
		was.Close()
	}
	c.m[k] = conn
	time.AfterFunc(acceptedTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.m[k] == conn {
			delete(c.m, k)
			conn.Close()
		}
	})
}

func (c *acceptedConns) take(k acceptKey) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.m[k]
	delete(c.m, k)
	return conn
}

func (c *acceptedConns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.m {
		conn.Close()
	}
	clear(c.m)
}
