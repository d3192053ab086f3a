// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const dialTimeout = 2 * time.Second

// socket is a collector on a stream socket. write closes a blocked connection.
type socket struct {
	network, address string
	timeouts         *timeouts
	conn             net.Conn // nil while not connected
}

func (s *socket) open() error { return nil }

// write sends a partly sent line again on the next connection.
func (s *socket) write(ctx context.Context, p []byte) (n int, err error) {
	if s.conn != nil && hungUp(s.conn) {
		s.close()
	}
	if s.conn == nil {
		d := net.Dialer{Timeout: dialTimeout}
		if s.conn, err = d.DialContext(ctx, s.network, s.address); err != nil {
			s.conn = nil
			return 0, err
		}
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.timeouts.write))
	conn := s.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })
	n, err = conn.Write(p)
	stop()
	if err != nil {
		s.close()
	}
	return wholeLines(p, n), err
}

// hungUp detects a closed peer, where a write would be lost without an error. It drops received bytes.
func hungUp(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [512]byte
		for {
			n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return true
			case errors.Is(err, unix.EINTR):
			case err != nil, n == 0:
				gone = true
				return true
			}
		}
	})
	return gone || err != nil
}

func (s *socket) maintain() {
	if s.conn != nil && hungUp(s.conn) {
		s.close()
	}
}

func (s *socket) close() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}
