// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// chunkSize is about one write, in bytes.
const chunkSize = 64 << 10

// mostFree is what a busy node fills in a gatherTime.
const mostFree = 16

const lineStart = `{"seq":`

// lineRoom is for additions to a line, in bytes.
const lineRoom = 256

// chunk has complete lines.
type chunk struct {
	b     []byte
	lines int
}

type queue struct {
	// wake: a first line has come; hurry: the queue is more than half full.
	wake, hurry chan struct{}
	// dropped counts lines lost to a full queue.
	dropped atomic.Uint64
	// size is in bytes, with the chunk being written. It changes under mu.
	size atomic.Int64

	mu sync.Mutex // guards the fields below
	// limit bounds size.
	limit int64
	// chunks are in order; put fills the last.
	chunks []*chunk
	free   []*chunk // empty chunks for reuse, mostFree at most
	seq    uint64   // of the last line
	// lost counts the lines lost since the last line about them, the first at lostSince.
	lost      uint64
	lostSince time.Time
	closed    bool
}

func newQueue(limit int64) *queue {
	return &queue{wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), limit: limit}
}

func (q *queue) setLimit(limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
}

// append copies a line, or drops it if the queue is full or closed. members are JSON after the sequence
// number, up to the closing brace.
func (q *queue) append(members []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		abandoned.Add(1)
		return
	case q.size.Load()+int64(len(members))+lineRoom > q.limit:
		if q.lost == 0 {
			q.lostSince = time.Now()
		}
		q.lost++
		q.seq++
		q.dropped.Add(1)
		return
	}
	q.appendLost()
	q.put(members)
}

// q.mu is held.
func (q *queue) appendLost() {
	if q.lost == 0 {
		return
	}
	b := appendEvent(nil, "lost", time.Now())
	b = append(b, `,"lines":`...)
	b = strconv.AppendUint(b, q.lost, 10)
	b = append(b, `,"since":`...)
	b = append(AppendTime(b, q.lostSince), '}')
	q.lost = 0
	q.put(b)
}

// put numbers and adds a line. q.mu is held.
func (q *queue) put(members []byte) {
	need := len(members) + lineRoom
	var c *chunk
	if n := len(q.chunks); n > 0 && cap(q.chunks[n-1].b)-len(q.chunks[n-1].b) >= need {
		c = q.chunks[n-1]
	} else {
		if n := len(q.free); n > 0 && need <= chunkSize {
			c, q.free = q.free[n-1], q.free[:n-1]
		} else {
			c = &chunk{b: make([]byte, 0, max(chunkSize, need))}
		}
		q.chunks = append(q.chunks, c)
	}
	before := len(c.b)
	q.seq++
	c.b = append(c.b, lineStart...)
	c.b = strconv.AppendUint(c.b, q.seq, 10)
	c.b = append(c.b, ',')
	c.b = append(c.b, members...)
	c.b = append(c.b, '\n')
	c.lines++
	size := q.size.Add(int64(len(c.b) - before))
	if len(q.chunks) == 1 && c.lines == 1 {
		signal(q.wake)
	}
	if size > q.limit/2 {
		signal(q.hurry)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take removes the oldest chunk, nil for none. Its bytes count until release.
func (q *queue) take() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		q.appendLost()
	}
	if len(q.chunks) == 0 {
		return nil
	}
	c := q.chunks[0]
	q.chunks[0], q.chunks = nil, q.chunks[1:]
	return c
}

// release frees written bytes. c may be nil.
func (q *queue) release(bytes int, c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size.Add(-int64(bytes))
	if c != nil && cap(c.b) == chunkSize && len(q.free) < mostFree {
		c.b, c.lines = c.b[:0], 0
		q.free = append(q.free, c)
	}
}

// close adds a last line, with the event stop. Later lines are abandoned.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.appendLost()
	q.put(append(appendEvent(nil, "stop", time.Now()), '}'))
	q.closed = true
}

// appendEvent begins a line without a query.
func appendEvent(b []byte, event string, at time.Time) []byte {
	b = append(b, `"event":"`...)
	b = append(b, event...)
	b = append(b, `","time":`...)
	return AppendTime(b, at)
}

// AppendTime appends t as a JSON string (RFC 3339), in UTC with microseconds.
func AppendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000000Z"`)
}
