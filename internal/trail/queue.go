// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// chunkSize is about how many bytes one write has.
const chunkSize = 64 << 10

// mostFree bounds the empty chunks for reuse. A busy node fills that many in a gatherTime.
const mostFree = 16

// lineStart begins each line.
const lineStart = `{"seq":`

// lineRoom is the space, in bytes, for the additions of the queue to a line, and for a line about lost lines.
const lineRoom = 256

// chunk is a run of complete lines.
type chunk struct {
	b     []byte
	lines int
}

// queue has the lines that are not written yet. It is safe for concurrent use.
type queue struct {
	// wake gets an element with the first line after the writer has taken all lines; hurry, when the queue is
	// more than half full.
	wake, hurry chan struct{}
	// dropped counts lines that were lost because the queue was full.
	dropped atomic.Uint64
	// size is the number of bytes in the queue and in the chunk that is being written. It changes under mu.
	size atomic.Int64

	mu sync.Mutex // guards all below
	// limit bounds size.
	limit int64
	// chunks are in the order of their lines; put fills the last one.
	chunks []*chunk
	free   []*chunk // empty chunks for reuse, mostFree at most
	seq    uint64   // of the last line
	// lost is the number of lines lost since the last line about lost lines. lostSince is the time of the
	// first loss.
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

// append adds a copy of a line, or drops the line if the queue is full or closed. members are the members of
// a JSON object after the sequence number, up to the closing brace.
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

// tellLost adds a line about lost lines, if there are any. q.mu is held.
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

// put numbers a line and adds it. q.mu is held.
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

// take removes and returns the oldest chunk, nil for none. Its bytes count until release.
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

// release frees the room of written bytes. A chunk c whose lines are all written may be reused; c may be nil.
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
	q.tellLost()
	q.put(append(appendEvent(nil, "stop", time.Now()), '}'))
	q.closed = true
}

// appendEvent appends the first members of a line that is not a query.
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
