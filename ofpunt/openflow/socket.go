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

// socket is a connection whose reads and writes are raw system calls. Its file
// descriptor does not block, so the scheduler need not be informed of them. The calls of
// package net do inform it, and it wakes its monitor thread (sysmon) each time that the
// process was idle: a quarter of the processor time of a query at 2,000 a second.
//
// One goroutine may read and one write at a time.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil where there is no file descriptor, as with TLS
	// in is the read that runs, and out the write. The functions are made once, as each
	// would be an allocation.
	in, out          transfer
	read, write, try func(fd uintptr) bool
	tryIn            func(fd uintptr) bool
}

// transfer is a system call and its result.
type transfer struct {
	b   []byte
	n   int // bytes read or written
	err error
}

func newSocket(nc net.Conn) *socket {
	s := &socket{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // where it fails, package net is used
	}
	s.read = func(fd uintptr) bool { return s.in.do(syscall.SYS_READ, fd) }
	s.write = func(fd uintptr) bool { return s.out.do(syscall.SYS_WRITE, fd) }
	s.try = func(fd uintptr) bool { s.write(fd); return true }
	s.tryIn = func(fd uintptr) bool { s.read(fd); return true }
	return s
}

// do makes one system call, as a function for syscall.RawConn. It reports false if the
// call would block.
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

// result returns the result of the call, and resets t. err is the error of the RawConn.
func (t *transfer) result(what string, err error) (int, error) {
	if err == nil && t.err != nil {
		err = os.NewSyscallError(what, t.err)
	}
	n := t.n
	*t = transfer{}
	return n, err
}

// Read implements net.Conn.
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

// Write implements net.Conn.
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

// canTry reports whether tryWrite works on this connection.
func (s *socket) canTry() bool { return s.raw != nil }

// tryWrite writes as much as the socket takes without blocking, and returns how many bytes
// that is. A permanent error comes with the next Write.
func (s *socket) tryWrite(b []byte) int {
	s.out.b = b
	n, _ := s.out.result("write", s.raw.Write(s.try))
	return n
}

// tryRead reads what there is without blocking, and returns how many bytes that is: 0 at the end too, which
// comes with the next Read, as a permanent error does.
func (s *socket) tryRead(b []byte) int {
	s.in.b = b
	n, _ := s.in.result("read", s.raw.Read(s.tryIn))
	return n
}
