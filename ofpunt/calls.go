// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// calls has the connections of switches that have called during the trial of a
// Corefile, for the sessions of that Corefile.
var calls calledFor

// callTimeout is how long a switch that has called is kept waiting. Open vSwitch
// itself gives a connection up whose handshake has not ended after 1 s to 8 s
// (lib/rconn.c), and calls again.
const callTimeout = 5 * time.Second

// call is where a switch has called.
type call struct {
	at  endpoint.Endpoint
	tls endpoint.TLSFiles
}

type calledFor struct {
	mu sync.Mutex
	m  map[call]net.Conn
}

func (c *calledFor) keep(k call, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[call]net.Conn{}
	}
	if was := c.m[k]; was != nil {
		was.Close()
	}
	c.m[k] = conn
	time.AfterFunc(callTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.m[k] == conn {
			delete(c.m, k)
			conn.Close()
		}
	})
}

// take returns the connection of a switch that has called there, nil if none has.
func (c *calledFor) take(k call) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.m[k]
	delete(c.m, k)
	return conn
}

// drop ends all of them, for a Corefile that was refused.
func (c *calledFor) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.m {
		conn.Close()
	}
	clear(c.m)
}
