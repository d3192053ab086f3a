// SPDX-License-Identifier: Apache-2.0

package trail

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
	// Version is the version of the line format. Lines with the event start have it.
	Version = 1

	// gatherTime is how long the writer gathers lines for one write. Waking the writer for each query would
	// cost more than all the rest.
	gatherTime = 50 * time.Millisecond
	// writeTimeout is how long a pipe or a collector may block a write.
	writeTimeout = 5 * time.Second
	// flushTimeout bounds the writing of the queue after the last lease has ended.
	flushTimeout = time.Second
	// hangTimeout is how much longer a system call may take that is under way after flushTimeout.
	hangTimeout = time.Second
	// maintainInterval is the time between calls of sink.maintain.
	maintainInterval = time.Minute
)

// timeouts bound the waits of a Writer. Tests raise them.
type timeouts struct{ write, flush, hang time.Duration }

var abandoned atomic.Uint64

// Abandoned returns how many lines the process lost when writers ended: lines not written in time, and lines
// appended later. The count outlives the writers, unlike their Stats.
func Abandoned() uint64 { return abandoned.Load() }

// Logger logs changes of a Writer's state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Config configures the Writer of a target.
type Config struct {
	// Queue bounds the lines that are not written yet, in bytes.
	Queue    int64
	Rotation Rotation
}

// sink writes lines. It is not safe for concurrent use.
type sink interface {
	// open opens a file. A socket connects at the first write.
	open() error
	// write writes complete lines, and returns the number of bytes in the lines that it has written
	// completely. The caller passes the rest to the next call. write blocks for timeouts.write at most, and
	// returns when ctx ends. Only a hanging disk may block it for longer.
	write(ctx context.Context, p []byte) (n int, err error)
	// maintain is called every Writer.maintainEvery.
	maintain()
	close()
}

// Writer writes the lines of one target.
type Writer struct {
	target Target
	log    Logger
	queue  *queue
	sink   sink
	config atomic.Pointer[Config]
	// timeouts do not change after start.
	timeouts timeouts
	// maintainEvery is the time between calls of sink.maintain. It does not change after start.
	maintainEvery time.Duration
	// leases are the leases of the Writer; the Config of the last one is in force. writersMu guards leases.
	leases []*Lease
	// stop is closed after the last line is queued; done, when the goroutine has ended.
	stop, done chan struct{}

	// down is set while writes fail.
	down                  atomic.Bool
	written, rotated, bad atomic.Uint64
}

// Lease allows its owner to append lines to a Writer until Release.
type Lease struct {
	writer *Writer
	config Config
	once   sync.Once
}

// writers are the writers of the process, by target.
var (
	writersMu sync.Mutex // guards writers and Writer.leases
	writers   = map[Target]*Writer{}
)

// Acquire returns a lease of the target's Writer, and starts the Writer with the first lease. The error says
// that a file can't be opened. A socket is connected later.
func Acquire(t Target, c Config, log Logger) (*Lease, error) {
	return acquireFrom(t, c, log, newWriter)
}

// acquireFrom is Acquire with a constructor for the Writer.
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

// start queues the first line, and starts the goroutine.
func (w *Writer) start() {
	host, _ := os.Hostname() // after an error the line has an empty host
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

// Append queues a copy of a line, and never waits for the target. members are the members of a JSON object
// after the sequence number, up to the closing brace.
func (l *Lease) Append(members []byte) { l.writer.queue.append(members) }

// Release ends the lease; further calls do nothing. For the last lease, Release waits until all lines are
// written, but at most flushTimeout, and hangTimeout more if the disk hangs.
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

// end waits until the lines of the queue are written. It abandons a goroutine that hangs in a system call.
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

// run writes the lines until the last lease has ended.
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

// gather waits up to gatherTime for further lines.
func (w *Writer) gather() {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.queue.hurry:
	case <-w.stop:
	}
}

// flush writes all lines of the queue. It returns when the queue is empty, or when ctx ends: the remaining
// lines are lost then. At each element of due, flush maintains the sink, which may free space on a full disk.
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

// isDown counts an error of the sink, and logs the first one.
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

// giveUp counts the lines that remain when the process ends, or when a reload has removed the target.
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
	// Written counts lines, Dropped lines that were lost because the queue was full, Rotated files, and
	// Errors failed attempts to write.
	Written, Dropped, Rotated, Errors uint64
	// Queued is the number of bytes that wait.
	Queued int64
	// Up is set unless the last attempt to write has failed.
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
