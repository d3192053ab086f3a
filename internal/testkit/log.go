// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"fmt"
	stdlog "log"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Log stores the bytes written to it. Its methods may be called from any goroutine.
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

// CaptureLog returns what the standard logger, and with it CoreDNS, logs until the end of the test.
func CaptureLog(t testing.TB) *Log {
	l, before := new(Log), stdlog.Writer()
	stdlog.SetOutput(l)
	t.Cleanup(func() { stdlog.SetOutput(before) })
	return l
}

// Lines is a logger that stores its lines, each behind INFO or WARNING. Its methods may be called
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
