// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Feed carries events to readers. The zero value is ready, and safe for concurrent use.
type Feed struct {
	// readers is immutable, or nil; mu guards its replacement.
	readers atomic.Pointer[[]*Reader]
	mu      sync.Mutex
	// nil without Remember
	history atomic.Pointer[history]
}

// Reader reads a Feed, on one goroutine.
type Reader struct {
	feed   *Feed
	filter *Filter
	// nil without a limit
	limiter *limiter
	ring    *ring
	// events over the limit, and without room in the ring, since the last missed
	over, lost atomic.Uint64
}

// Remember starts or stops storing events for later readers.
func (f *Feed) Remember(on bool) {
	switch {
	case !on:
		f.history.Store(nil)
	case f.history.Load() == nil:
		f.history.CompareAndSwap(nil, new(history))
	}
}

// past is ordered, oldest first.
func (f *Feed) past() []Event {
	if h := f.history.Load(); h != nil {
		return h.events()
	}
	return nil
}

// Wanted reports whether there is a reader or a history.
func (f *Feed) Wanted() bool { return f.readers.Load() != nil || f.history.Load() != nil }

// Publish copies an event to the history and to each matching reader, without blocking. Copies share references. It
// sets e.number.
func (f *Feed) Publish(e *Event) {
	if h := f.history.Load(); h != nil {
		h.put(e)
	}
	readers := f.readers.Load()
	if readers == nil {
		return
	}
	for _, r := range *readers {
		r.publish(e)
	}
}

func (r *Reader) publish(e *Event) {
	switch {
	case !r.filter.matches(e):
	case r.limiter != nil && !r.limiter.allows(e.Arrived.Add(e.Took)):
		r.over.Add(1)
	case !r.ring.put(e):
		r.lost.Add(1)
	}
}

// listen returns a reader for room events. All events pass without a limiter. Close it.
func (f *Feed) listen(filter *Filter, room int, limiter *limiter) *Reader {
	r := &Reader{feed: f, filter: filter, limiter: limiter, ring: newRing(room)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(append(slices.Clone(f.all()), r))
	return r
}

func (f *Feed) all() []*Reader {
	if readers := f.readers.Load(); readers != nil {
		return *readers
	}
	return nil
}

func (f *Feed) replace(readers []*Reader) {
	if len(readers) == 0 {
		f.readers.Store(nil)
		return
	}
	f.readers.Store(&readers)
}

// missed returns the events over the limit and without room since the last call.
func (r *Reader) missed() (over, lost uint64) { return r.over.Swap(0), r.lost.Swap(0) }

// Close removes the reader from the Feed.
func (r *Reader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.replace(slices.DeleteFunc(slices.Clone(r.feed.all()), func(o *Reader) bool { return o == r }))
}
