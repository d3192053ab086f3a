// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
)

// The configuration of the last lease is in force; when that ends, as in a reload that fails, the
// one before is again.
func TestConfigOfLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	limit := func() int64 {
		w := writers[Target{"file", path}]
		w.queue.mu.Lock()
		defer w.queue.mu.Unlock()
		if w.queue.limit != w.config.Load().Queue {
			t.Errorf("%d is in force, and %d configured", w.queue.limit, w.config.Load().Queue)
		}
		return w.queue.limit
	}
	first := acquire(t, path, Config{Queue: 1000}, new(testkit.Lines))
	second := acquire(t, path, Config{Queue: 2000}, new(testkit.Lines))
	if got := limit(); got != 2000 {
		t.Errorf("%d, want that of the second", got)
	}
	second.Release()
	if got := limit(); got != 1000 {
		t.Errorf("%d, want that of the first again", got)
	}
	third := acquire(t, path, Config{Queue: 3000}, new(testkit.Lines))
	first.Release()
	if got := limit(); got != 3000 {
		t.Errorf("%d, want that of the third", got)
	}
	third.Release()
	if len(All()) != 0 {
		t.Errorf("left: %v", All())
	}
	if all := decoded(t, read(t, path)); len(all) != 2 {
		t.Errorf("%v, want a start and a stop", all)
	}
}

func TestAcquireFails(t *testing.T) {
	_, err := Acquire(Target{"file", filepath.Join(t.TempDir(), "none", "audit.json")}, Config{}, new(testkit.Lines))
	if err == nil || !strings.Contains(err.Error(), "expected a file that this user may write to") {
		t.Error(err)
	}
	if len(All()) != 0 {
		t.Error("a writer is left")
	}
}

// blocked is a sink whose open and write block until free is closed; in has an element when one does.
type blocked struct {
	sink
	in, free chan struct{}
}

func newBlocked() *blocked { return &blocked{in: make(chan struct{}, 1), free: make(chan struct{})} }

func (s *blocked) block() {
	s.in <- struct{}{}
	<-s.free
}

func (s *blocked) open() error { s.block(); return nil }
func (s *blocked) close()      {}

func (s *blocked) write(_ context.Context, p []byte) (int, error) {
	s.block()
	return len(p), nil
}

// A disk that hangs when a file is opened delays no other file. A second lease that opens the file meanwhile
// shares the writer.
func TestOpenHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	to, s := Target{"file", path}, newBlocked()
	leases := make(chan *Lease)
	go func() {
		l, _ := acquireFrom(to, Config{Queue: 1000}, new(testkit.Lines), func(to Target, c Config, log Logger) *Writer {
			w := newPatientWriter(to, c, log)
			w.sink = s
			return w
		})
		leases <- l
	}()
	<-s.in
	if n := len(All()); n != 0 {
		t.Errorf("%d writers", n)
	}
	first := acquire(t, path, Config{}, new(testkit.Lines))
	close(s.free)
	second := <-leases
	if first.writer != second.writer || len(All()) != 1 {
		t.Error("one target has two writers")
	}
	second.Release()
}

// A disk that hangs in a write does not keep a process from its end.
func TestEndHangs(t *testing.T) {
	s, log := newBlocked(), new(testkit.Lines)
	w := newWriter(Target{"file", "/audit.json"}, Config{Queue: 1 << 20}, log)
	w.sink = s
	w.timeouts.flush, w.timeouts.hang = time.Millisecond, time.Millisecond
	w.start()
	<-s.in
	w.end()
	if log.Count("it hangs") != 1 {
		t.Error(log.All())
	}
	go func() {
		for range s.in { // of the last line
		}
	}()
	close(s.free)
	<-w.done
	close(s.in)
}

// A line allocates nothing except new chunks.
func TestAppendAllocates(t *testing.T) {
	l := acquire(t, filepath.Join(t.TempDir(), "audit.json"), Config{Queue: 64 << 20}, new(testkit.Lines))
	m := members(1)
	if n := testing.AllocsPerRun(10000, func() { l.Append(m) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := acquire(b, "/dev/null", Config{Queue: 1 << 30}, new(testkit.Lines))
	m := []byte(`"event":"query","name":"` + strings.Repeat("x", 400) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		l.Append(m)
	}
}
