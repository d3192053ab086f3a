// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// chunkSize is how many bytes are written at once, about.
const chunkSize = 64 << 10

// mostFree is how many empty chunks are kept: what comes in a gatherTime on a busy node.
const mostFree = 16

// lineStart begins each line.
const lineStart = `{"seq":`

// lineRoom is room for what the queue adds to a line, and for the line that tells of lost ones.
const lineRoom = 256

// chunk is some whole lines.
type chunk struct {
	b     []byte
	lines int
}

// queue has the lines that are still to be written. It is safe for concurrent use.
type queue struct {
	// wake has an element when there are lines for a writer that has seen none; hurry when the
	// queue is half full.
	wake, hurry chan struct{}
	// dropped counts lines that were lost since the queue was full.
	dropped atomic.Uint64
	// size is how many bytes there are, those that are being written included. mu guards it
	// where it is changed.
	size atomic.Int64

	mu sync.Mutex // guards all below
	// limit bounds size, in bytes.
	limit int64
	// chunks are in their order; the last one is being filled.
	chunks []*chunk
	free   []*chunk // empty ones, for reuse; mostFree at most
	seq    uint64   // of the last line
	// lost is how many lines were lost since the trail has told of it, and lostSince when the
	// first one was.
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

// append takes a copy of a line: the members of a JSON object behind the first one, up to the
// brace that closes it. It does not wait for room.
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
	q.tellLost()
	q.put(members)
}

// tellLost puts a line that tells of lost ones, if there are any. q.mu is held.
func (q *queue) tellLost() {
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

// put numbers a line. q.mu is held.
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

// take returns the oldest lines, nil for none. Their bytes count until they are released.
func (q *queue) take() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		q.tellLost()
	}
	if len(q.chunks) == 0 {
		return nil
	}
	c := q.chunks[0]
	q.chunks[0], q.chunks = nil, q.chunks[1:]
	return c
}

// release gives back the room of bytes that are written, and with an empty chunk that.
func (q *queue) release(bytes int, c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size.Add(-int64(bytes))
	if c != nil && cap(c.b) == chunkSize && len(q.free) < mostFree {
		c.b, c.lines = c.b[:0], 0
		q.free = append(q.free, c)
	}
}

// close puts a last line. What comes later is abandoned.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tellLost()
	q.put(append(appendEvent(nil, "stop", time.Now()), '}'))
	q.closed = true
}

// appendEvent appends the first members of a line that is no query.
func appendEvent(b []byte, event string, at time.Time) []byte {
	b = append(b, `"event":"`...)
	b = append(b, event...)
	b = append(b, `","time":`...)
	return AppendTime(b, at)
}

// AppendTime appends a time in UTC with microseconds, as a string of JSON (RFC 3339).
func AppendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000000Z"`)
}
