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
// descriptor does not block, so the scheduler needs no word of them: given one, as
// package net does, it wakes its monitor thread (sysmon) whenever the process was
// idle, which is a quarter of the processor time of a query at 2,000 a second.
//
// One goroutine may read and one write at a time.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil where there is no file descriptor, as with TLS
	// What is under way. The functions are made once, as each would be an
	// allocation.
	in, out          transfer
	read, write, try func(fd uintptr) bool
}

// transfer is a system call and what came of it.
type transfer struct {
	b   []byte
	n   int // bytes
	err error
}

func newSocket(nc net.Conn) *socket {
	s := &socket{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // without it, package net does the work
	}
	s.read = func(fd uintptr) bool { return s.in.do(syscall.SYS_READ, fd) }
	s.write = func(fd uintptr) bool { return s.out.do(syscall.SYS_WRITE, fd) }
	s.try = func(fd uintptr) bool { s.write(fd); return true }
	return s
}

// do makes one system call. It is false if that has to wait for the socket.
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

// take returns what came of the call, and forgets it.
func (t *transfer) take(what string, err error) (int, error) {
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
	n, err := s.in.take("read", s.raw.Read(s.read))
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
		n, err := s.out.take("write", s.raw.Write(s.write))
		done += n
		if err != nil {
			return done, fmt.Errorf("after %d of %d bytes: %w", done, len(b), err)
		}
	}
	return done, nil
}

// canTry tells whether tryWrite does anything.
func (s *socket) canTry() bool { return s.raw != nil }

// tryWrite writes as much as the socket takes at once, which may be nothing. An
// error that lasts comes with the next Write.
func (s *socket) tryWrite(b []byte) int {
	s.out.b = b
	n, _ := s.out.take("write", s.raw.Write(s.try))
	return n
}
