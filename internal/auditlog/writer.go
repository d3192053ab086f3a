// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/escape"
)

const (
	// Version is the version of the line format, in lines with the event start.
	Version = 1

	// gatherTime collects lines: waking the writer for each query costs more than all the rest.
	gatherTime = 50 * time.Millisecond
	// writeTimeout is for a blocked pipe or collector.
	writeTimeout = 5 * time.Second
	// flushTimeout is for the queue after the last lease.
	flushTimeout = time.Second
	// hangTimeout is for a system call after flushTimeout.
	hangTimeout      = time.Second
	maintainInterval = time.Minute
)

// Tests raise them.
type timeouts struct{ write, flush, hang time.Duration }

var abandoned atomic.Uint64

// Abandoned returns how many lines were lost when writers ended.
func Abandoned() uint64 { return abandoned.Load() }

// Logger logs changes of a Writer's state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Config configures the Writer of a target.
type Config struct {
	// Queue bounds the unwritten lines, in bytes.
	Queue    int64
	Rotation Rotation
}

// sink is not safe for concurrent use.
type sink interface {
	// open opens a file. A socket connects at the first write.
	open() error
	// write returns the bytes of completely written lines. It ends by timeouts.write and ctx; only a hanging
	// disk blocks it longer.
	write(ctx context.Context, p []byte) (n int, err error)
	// maintain is called every Writer.maintainEvery.
	maintain()
	close()
}

// Writer writes the lines of one target.
type Writer struct {
	target        Target
	log           Logger
	queue         *queue
	sink          sink
	config        atomic.Pointer[Config]
	timeouts      timeouts
	maintainEvery time.Duration
	// leases are guarded by writersMu. The Config of the last one is in force.
	leases []*Lease
	// stop is closed after the last line is queued, done at the end of the goroutine.
	stop, done chan struct{}

	// down is set while writes fail.
	down                  atomic.Bool
	written, rotated, bad atomic.Uint64
}

// Lease allows appending lines to a Writer until Release.
type Lease struct {
	writer *Writer
	config Config
	once   sync.Once
}

var (
	writersMu sync.Mutex // guards writers and Writer.leases
	writers   = map[Target]*Writer{}
)

// Acquire returns a lease of the target's Writer. The error is about a file; a socket connects later.
func Acquire(t Target, c Config, log Logger) (*Lease, error) {
	return acquireFrom(t, c, log, newWriter)
}

func acquireFrom(t Target, c Config, log Logger, newWriter func(Target, Config, Logger) *Writer) (*Lease, error) {
	writersMu.Lock()
	defer writersMu.Unlock()
	w := writers[t]
	if w == nil {
		opened := newWriter(t, c, log)
		writersMu.Unlock() // the disk may be slow
		err := opened.sink.open()
		writersMu.Lock()
		if err != nil {
			return nil, fmt.Errorf("%w; expected a file that this user may write to", err)
		}
		if w = writers[t]; w == nil {
			w = opened
			w.start()
			writers[t] = w
		} else {
			opened.sink.close()
		}
	}
	l := &Lease{writer: w, config: c}
	w.leases = append(w.leases, l)
	w.apply(c)
	return l, nil
}

func newWriter(t Target, c Config, log Logger) *Writer {
	w := &Writer{
		target: t, log: log, queue: newQueue(c.Queue), timeouts: timeouts{writeTimeout, flushTimeout, hangTimeout},
		maintainEvery: maintainInterval,
		stop:          make(chan struct{}), done: make(chan struct{}),
	}
	w.config.Store(&c)
	if t.Network == "file" {
		w.sink = &file{
			path: t.Address, log: log, timeouts: &w.timeouts, lockTimeout: lockTimeout,
			rotation: func() Rotation { return w.config.Load().Rotation },
			rotated:  func() { w.rotated.Add(1) },
		}
	} else {
		w.sink = &socket{network: t.Network, address: t.Address, timeouts: &w.timeouts}
	}
	return w
}

func (w *Writer) start() {
	host, _ := os.Hostname() // empty after an error
	b := appendEvent(nil, "start", time.Now())
	b = fmt.Appendf(b, `,"version":%d,"host":`, Version)
	b = escape.AppendJSON(b, host)
	b = append(b, `,"pid":`...)
	b = append(strconv.AppendInt(b, int64(os.Getpid()), 10), '}')
	w.queue.append(b)
	go w.run()
}

func (w *Writer) apply(c Config) {
	w.config.Store(&c)
	w.queue.setLimit(c.Queue)
}

// Append queues a copy of a line without waiting. members are JSON after the sequence number, up to the
// closing brace.
func (l *Lease) Append(members []byte) { l.writer.queue.append(members) }

// Release ends the lease, once. The last one waits up to flushTimeout for unwritten lines, and hangTimeout
// more if the disk hangs.
func (l *Lease) Release() { l.once.Do(l.release) }

func (l *Lease) release() {
	w := l.writer
	writersMu.Lock()
	w.leases = slices.DeleteFunc(w.leases, func(o *Lease) bool { return o == l })
	last := len(w.leases) == 0
	if last {
		delete(writers, w.target)
	} else {
		w.apply(w.leases[len(w.leases)-1].config)
	}
	writersMu.Unlock()
	if last {
		w.end()
	}
}

// end abandons a goroutine that hangs in a system call.
func (w *Writer) end() {
	w.queue.close()
	close(w.stop)
	t := time.NewTimer(w.timeouts.flush + w.timeouts.hang)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
		w.log.Warningf("%s: it hangs; what is not written yet may be lost", w.target)
	}
}

func (w *Writer) run() {
	defer close(w.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ending := make(chan struct{})
	go func() {
		defer close(ending)
		select {
		case <-ctx.Done():
			return
		case <-w.stop:
		}
		t := time.NewTimer(w.timeouts.flush)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
			cancel()
		}
	}()
	t := time.NewTicker(w.maintainEvery)
	defer t.Stop()
	for stopped := false; !stopped; {
		select {
		case <-w.stop:
			stopped = true
		case <-t.C:
			w.sink.maintain()
			continue
		case <-w.queue.wake:
			w.gather()
		}
		w.flush(ctx, t.C)
	}
	w.sink.close()
	cancel()
	<-ending
}

// gather waits up to gatherTime for more lines.
func (w *Writer) gather() {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.queue.hurry:
	case <-w.stop:
	}
}

// flush ends with an empty queue or ctx, which loses the rest. At due it maintains the sink, which may free
// space.
func (w *Writer) flush(ctx context.Context, due <-chan time.Time) {
	retry := endpoint.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for c := w.queue.take(); c != nil; c = w.queue.take() {
		for rest := c.b; len(rest) > 0; {
			select {
			case <-due:
				w.sink.maintain()
			default:
			}
			n, err := w.sink.write(ctx, rest)
			if n > 0 {
				w.written.Add(uint64(bytes.Count(rest[:n], []byte{'\n'})))
				w.queue.release(n, nil)
				rest = rest[n:]
				retry.Reset()
			}
			if err == nil {
				w.isUp()
				continue
			}
			w.isDown(err)
			if retry.Wait(ctx) != nil {
				w.giveUp(rest)
				return
			}
		}
		w.queue.release(0, c)
	}
}

// isDown counts errors, and logs the first.
func (w *Writer) isDown(err error) {
	w.bad.Add(1)
	if !w.down.Swap(true) {
		w.log.Warningf("%s: not written; lines wait in the queue, and further ones are lost once it is full: %v", w.target, err)
	}
}

func (w *Writer) isUp() {
	if w.down.Swap(false) {
		w.log.Infof("%s: written again; %d lines were lost since the start", w.target, w.queue.dropped.Load())
	}
}

// giveUp counts the remaining lines as abandoned.
func (w *Writer) giveUp(rest []byte) {
	n := bytes.Count(rest, []byte{'\n'})
	for c := w.queue.take(); c != nil; c = w.queue.take() {
		n += c.lines
	}
	abandoned.Add(uint64(n))
	w.log.Warningf("%s: %d lines could not be written before the end, and are lost", w.target, n)
}

// Stats are the figures of a Writer since its start.
type Stats struct {
	Target Target
	// Written and Dropped count lines, Rotated files, Errors failed writes.
	Written, Dropped, Rotated, Errors uint64
	// Queued is in bytes.
	Queued int64
	// Up is set unless the last write failed.
	Up bool
}

// All returns the statistics of all writers, sorted by target.
func All() []Stats {
	writersMu.Lock()
	defer writersMu.Unlock()
	all := make([]Stats, 0, len(writers))
	for _, t := range slices.SortedFunc(maps.Keys(writers), func(a, b Target) int { return strings.Compare(a.String(), b.String()) }) {
		w := writers[t]
		all = append(all, Stats{
			Target: t, Written: w.written.Load(), Dropped: w.queue.dropped.Load(), Rotated: w.rotated.Load(),
			Errors: w.bad.Load(), Queued: w.queue.size.Load(), Up: !w.down.Load(),
		})
	}
	return all
}
