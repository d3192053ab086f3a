// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Gate is a socket in front of a server, which behaves as the test wants. At first
// it hangs up on everybody.
type Gate struct {
	Endpoint string

	host *Host
	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	serve  func(net.Conn)
	conns  map[net.Conn]struct{}
	came   []time.Time
	closed bool
}

// Gate opens a gate until the test's end: unix:PATH, or tcp:HOST:PORT with a
// numeric host in the first node.
func (l *Lab) Gate(endpoint string) *Gate {
	l.t.Helper()
	network, address, _ := strings.Cut(endpoint, ":")
	ln, err := l.Node.Listen(network, address)
	if err != nil {
		l.t.Fatalf("lab: %v", err)
	}
	g := &Gate{Endpoint: endpoint, host: l.Node.Host, ln: ln, conns: map[net.Conn]struct{}{}}
	g.Close()
	g.done.Add(1)
	go g.accept()
	l.t.Cleanup(func() {
		ln.Close()
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		g.Close()
		g.done.Wait()
	})
	return g
}

func (g *Gate) accept() {
	defer g.done.Done()
	for {
		conn, err := g.ln.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			conn.Close()
			return
		}
		g.came = append(g.came, time.Now())
		g.conns[conn] = struct{}{}
		serve := g.serve
		g.done.Add(1)
		g.mu.Unlock()
		go func() {
			defer g.done.Done()
			serve(conn)
			conn.Close()
			g.forget(conn)
		}()
	}
}

// Serve has f deal with each connection to come, which ends when f returns. Those
// that stand are ended.
func (g *Gate) Serve(f func(net.Conn)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serve = f
	for conn := range g.conns {
		conn.Close()
	}
}

// Close has the gate hang up on everybody.
func (g *Gate) Close() { g.Serve(func(net.Conn) {}) }

// Open has the gate pass everybody on to a server, given as for [Lab.Gate].
func (g *Gate) Open(endpoint string) {
	network, address, _ := strings.Cut(endpoint, ":")
	g.Serve(func(conn net.Conn) {
		to, err := g.host.Dial(context.Background(), network, address)
		if err != nil {
			return // the client finds out
		}
		defer to.Close()
		if !g.keep(to) {
			return
		}
		defer g.forget(to)
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(conn, to)
			conn.Close()
		})
		_, _ = io.Copy(to, conn)
		// The server may have a last word.
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		back.Wait()
	})
}

// keep has Serve close a connection too; it is false if the gate is no more.
func (g *Gate) keep(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.conns[conn] = struct{}{}
	}
	return !g.closed
}

func (g *Gate) forget(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// Came tells when each of the connections so far was made.
func (g *Gate) Came() []time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]time.Time(nil), g.came...)
}
