// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// garbage is what clients send that is no request, and one that none of them reads the answer to.
var garbage = []string{
	"",
	"\x00\xff\r\n\r\n",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"GET /" + strings.Repeat("a", 1<<16) + " HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: " + strings.Repeat("x\r\nA: ", 1<<12),
	"POST " + api.PathStatus + " HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{",
	"GET " + api.PathStatus + " HTTP/1.1\r\nHost: x\r\n", // it never ends
	slowRequest,
}

const slowRequest = "GET " + api.PathGuests + " HTTP/1.1\r\nHost: x\r\n\r\n"

// Nothing that clients do to the socket takes an answer from a guest, or the socket from an
// operator: 1,000 connections, garbage, clients that ask and read nothing, and other users.
func controlBesideLoad(t *testing.T, c *controlled) {
	load := asksSteadily(t, c.red, "NOERROR 10.0.1.101")
	load.more(c.Lab, 50)
	// dial returns nil where the queue of the socket is full.
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("unix", c.socket)
		if err != nil {
			return nil
		}
		open = append(open, conn)
		return conn
	}
	// Until those before are dealt with, an operator is turned away like them.
	settled := func() {
		t.Helper()
		for _, conn := range open {
			conn.Close()
		}
		open = nil
		c.Eventually("an operator is answered", func() error {
			if _, errs, status := c.operator.run("status"); status != 0 {
				return fmt.Errorf("exit status %d, %s", status, errs)
			}
			return nil
		})
		load.more(c.Lab, 50)
	}

	refused := 0
	for i := range 1000 {
		conn := dial()
		if conn == nil {
			refused++
			continue
		}
		_ = conn.SetWriteDeadline(time.Now().Add(wait))
		_, _ = io.WriteString(conn, garbage[i%len(garbage)]) // the server may have closed it
	}
	t.Logf("%d connections open at once, %d refused by the kernel", len(open), refused)
	load.more(c.Lab, 50)
	settled()

	// Answers that nobody reads fill the socket, until the server reads no further request.
	for range 4 {
		conn := dial()
		if conn == nil {
			t.Fatal("the queue of the socket is full")
		}
		requests := strings.Repeat(slowRequest, 1000)
		for {
			_ = conn.SetWriteDeadline(time.Now().Add(pause * 100))
			if _, err := io.WriteString(conn, requests); errors.Is(err, os.ErrDeadlineExceeded) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, errs, status := c.operator.run("status"); status != 0 {
		t.Errorf("beside clients that read nothing: exit status %d, %s", status, errs)
	}
	load.more(c.Lab, 50)
	settled()

	if err := os.Chmod(c.Dir, 0o755); err != nil { // so that it is the socket that refuses
		t.Fatal(err)
	}
	if code, err := c.curl("nobody"); err == nil || code != "000" {
		t.Errorf("nobody: %s, %v", code, err)
	}
	settled()
	load.end()
	c.eventually()
}
