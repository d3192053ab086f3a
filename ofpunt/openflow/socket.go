// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// socket reads and writes by raw system calls on a non-blocking descriptor. Package net informs the scheduler,
// which wakes sysmon after each idle period: a quarter of a query's CPU time at 2,000 a second.
//
// One goroutine may read and one write at a time.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil without a descriptor, as with TLS
	// The functions are stored to avoid allocations.
	in, out          transfer
	read, write, try func(fd uintptr) bool
	tryIn            func(fd uintptr) bool
}

type transfer struct {
	b   []byte
	n   int
	err error
}

func newSocket(nc net.Conn) *socket {
	s := &socket{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // package net is the fallback
	}
	s.read = func(fd uintptr) bool { return s.in.do(syscall.SYS_READ, fd) }
	s.write = func(fd uintptr) bool { return s.out.do(syscall.SYS_WRITE, fd) }
	s.try = func(fd uintptr) bool { s.write(fd); return true }
	s.tryIn = func(fd uintptr) bool { s.read(fd); return true }
	return s
}

// do reports false if the call would block.
func (t *transfer) do(trap, fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)))
		switch errno {
		case 0:
			t.n = int(n)
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = errno
			return true
		}
	}
}

// result resets t. err is of the RawConn.
func (t *transfer) result(what string, err error) (int, error) {
	if err == nil && t.err != nil {
		err = os.NewSyscallError(what, t.err)
	}
	n := t.n
	*t = transfer{}
	return n, err
}

func (s *socket) Read(b []byte) (int, error) {
	if s.raw == nil || len(b) == 0 {
		return s.Conn.Read(b)
	}
	s.in.b = b
	n, err := s.in.result("read", s.raw.Read(s.read))
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Write(b)
	}
	done := 0
	for done < len(b) {
		s.out.b = b[done:]
		n, err := s.out.result("write", s.raw.Write(s.write))
		done += n
		if err != nil {
			return done, fmt.Errorf("after %d of %d bytes: %w", done, len(b), err)
		}
	}
	return done, nil
}

func (s *socket) canTry() bool { return s.raw != nil }

// tryWrite returns the written bytes. The next Write returns a permanent error.
func (s *socket) tryWrite(b []byte) int {
	s.out.b = b
	n, _ := s.out.result("write", s.raw.Write(s.try))
	return n
}

// tryRead returns the read bytes. The next Read returns the end or a permanent error.
func (s *socket) tryRead(b []byte) int {
	s.in.b = b
	n, _ := s.in.result("read", s.raw.Read(s.tryIn))
	return n
}
