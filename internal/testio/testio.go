// SPDX-License-Identifier: Apache-2.0

// Package testio has what tests read from and write to.
package testio

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Pair returns the ends of a connection between two Unix sockets of a type, such as
// syscall.SOCK_STREAM. They are closed at the end of the test.
func Pair(t testing.TB, typ int) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, typ|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// Log keeps what is written to it. Its methods may be called from any goroutine.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines keeps what is logged to it, each line behind INFO or WARNING. Its methods may be called
// from any goroutine.
type Lines struct {
	mu    sync.Mutex
	lines []string
}

// Infof adds a line.
func (l *Lines) Infof(format string, args ...any) { l.add("INFO "+format, args...) }

// Warningf adds a line.
func (l *Lines) Warningf(format string, args ...any) { l.add("WARNING "+format, args...) }

func (l *Lines) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// All returns the lines so far.
func (l *Lines) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Count returns how many lines have a text.
func (l *Lines) Count(text string) (n int) {
	for _, line := range l.All() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
