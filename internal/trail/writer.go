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
	// Version is that of the form of the lines, in those with the event start.
	Version = 1

	// gatherTime is how long lines are gathered for one write: to wake the writer for each
	// query would cost more than the rest.
	gatherTime = 50 * time.Millisecond
	// writeTimeout is how long a pipe or a collector may take no byte.
	writeTimeout = 5 * time.Second
	// flushTimeout is how long the lines of the queue may take when the last lease ends.
	flushTimeout = time.Second
	// hangTimeout is how long a system call that is under way then may take.
	hangTimeout = time.Second
	// maintainInterval is the time between looks at the age of files.
	maintainInterval = time.Minute
)

// timeouts are those of a writer. Tests raise them.
type timeouts struct{ write, flush, hang time.Duration }

// abandoned is what Abandoned returns.
var abandoned atomic.Uint64

// Abandoned returns how many lines the process has lost at the end of a writer: those that were not
// written in time, and those that came later. It outlives the writers, unlike their Stats.
func Abandoned() uint64 { return abandoned.Load() }

// Logger logs changes of state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Config says how lines are kept and written.
type Config struct {
	// Queue bounds the lines that are still to be written, in bytes.
	Queue    int64
	Rotation Rotation
}

// sink writes lines. One goroutine uses it.
type sink interface {
	// open makes what can be had before the first write.
	open() error
	// write writes whole lines, and returns how many bytes of whole lines it has written. The
	// rest is for the next call. It does not block for longer than timeouts.write, nor when ctx
	// has ended.
	write(ctx context.Context, p []byte) (n int, err error)
	// maintain is called now and then.
	maintain()
	close()
}

// Writer writes the lines for one target.
type Writer struct {
	target Target
	log    Logger
	queue  *queue
	sink   sink
	config atomic.Pointer[Config]
	// timeouts are not changed once the writer has started.
	timeouts timeouts
	// maintainEvery is the time between calls of sink.maintain. It is not changed once the writer
	// has started.
	maintainEvery time.Duration
	// leases are those who write here; the last one's Config is in force. writersMu guards it.
	leases []*Lease
	// stop is closed when no line comes any more, and done when all are written.
	stop, done chan struct{}

	// down is set while the sink takes no line.
	down                  atomic.Bool
	written, rotated, bad atomic.Uint64
}

// Lease is one who writes lines.
type Lease struct {
	writer *Writer
	config Config
	once   sync.Once
}

// writers are those of the process, by target.
var (
	writersMu sync.Mutex // guards writers, and leases of each
	writers   = map[Target]*Writer{}
)

// Acquire returns a lease of the writer of a target, which starts with the first one. It is an
// error if a file can't be opened; a socket is connected later.
func Acquire(t Target, c Config, log Logger) (*Lease, error) {
	return acquireFrom(t, c, log, newWriter)
}

// acquireFrom is Acquire with what makes a writer.
func acquireFrom(t Target, c Config, log Logger, newWriter func(Target, Config, Logger) *Writer) (*Lease, error) {
	writersMu.Lock()
	defer writersMu.Unlock()
	w := writers[t]
	if w == nil {
		opened := newWriter(t, c, log)
		writersMu.Unlock() // a disk may take long
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

// start puts the first line, and starts the goroutine.
func (w *Writer) start() {
	host, _ := os.Hostname() // else the trail has no name of the host
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

// Append writes a line: the members of a JSON object but the first one, which is its sequence
// number, and the brace that closes it. It copies the members, and never waits for the target.
func (l *Lease) Append(members []byte) { l.writer.queue.append(members) }

// Release ends the lease, once. The last one returns when all lines are written, or
// after flushTimeout, or hangTimeout later if the disk hangs.
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

// end has the lines of the queue written. A goroutine that hangs in a system call is left behind.
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

// gather waits a moment for further lines.
func (w *Writer) gather() {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.queue.hurry:
	case <-w.stop:
	}
}

// flush writes all lines of the queue. It returns when there is none, or ctx has ended: then
// the rest is lost. The sink is maintained meanwhile, when due has an element: that may give a full disk
// room.
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

// isDown takes note of an error of the sink. The log has the first one.
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

// giveUp counts what is left when the process ends, or a reload has removed the target.
func (w *Writer) giveUp(rest []byte) {
	n := bytes.Count(rest, []byte{'\n'})
	for c := w.queue.take(); c != nil; c = w.queue.take() {
		n += c.lines
	}
	abandoned.Add(uint64(n))
	w.log.Warningf("%s: %d lines could not be written before the end, and are lost", w.target, n)
}

// Stats are those of a writer since its start.
type Stats struct {
	Target Target
	// Written counts lines, and Dropped those that were lost since the queue was full.
	// Rotated counts files, and Errors attempts to write.
	Written, Dropped, Rotated, Errors uint64
	// Queued is how many bytes wait.
	Queued int64
	// Up is set unless the last attempt to write has failed.
	Up bool
}

// All returns the statistics of all writers, in the order of their targets.
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
