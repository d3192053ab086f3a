// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// acceptedTimeout is how long a connection may wait for its session. Open vSwitch itself
// closes one whose handshake has not ended after 1 s to 8 s (lib/rconn.c), and connects
// again.
const acceptedTimeout = 5 * time.Second

// acceptKey is where a switch has connected to.
type acceptKey struct {
	at  endpoint.Endpoint
	tls endpoint.TLSFiles
}

// acceptedConns has the connections that were accepted from switches during the trial of a Corefile, one for
// each listening endpoint. The sessions of that Corefile take them over.
type acceptedConns struct {
	mu sync.Mutex
	m  map[acceptKey]net.Conn // guarded by mu
}

// put adds a connection. It closes the connection after acceptedTimeout, unless take has returned it before.
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

// take removes and returns the connection to an endpoint. It is nil without a connection.
func (c *acceptedConns) take(k acceptKey) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.m[k]
	delete(c.m, k)
	return conn
}

// closeAll closes all connections: the Corefile was refused.
func (c *acceptedConns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.m {
		conn.Close()
	}
	clear(c.m)
}
