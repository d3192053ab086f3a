// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Feed carries events to all who listen. The zero value is ready, and safe for concurrent use.
type Feed struct {
	// readers is immutable, and nil while there are none. mu is held by those who replace it.
	readers atomic.Pointer[[]*Reader]
	mu      sync.Mutex
	// history is nil unless Remember has set it.
	history atomic.Pointer[history]
}

// Reader is one who listens to a Feed. Its methods are for one goroutine.
type Reader struct {
	feed   *Feed
	filter *Filter
	// limiter is nil without a limit.
	limiter *limiter
	ring    *ring
	// over counts the events that were over the limit since the last call of missed, and lost those
	// for which the ring had no room.
	over, lost atomic.Uint64
}

// Remember makes the Feed store the newest events from now on, for readers that come later, or forget them.
func (f *Feed) Remember(on bool) {
	switch {
	case !on:
		f.history.Store(nil)
	case f.history.Load() == nil:
		f.history.CompareAndSwap(nil, new(history))
	}
}

// past returns the stored events, the oldest first.
func (f *Feed) past() []Event {
	if h := f.history.Load(); h != nil {
		return h.events()
	}
	return nil
}

// Wanted reports whether there is a reader or a history, so that an event needs to be made.
func (f *Feed) Wanted() bool { return f.readers.Load() != nil || f.history.Load() != nil }

// Publish gives a copy of an event to the history and to each reader that wants it. It never blocks. The copies
// share what e refers to. It changes the number of e.
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

// listen returns a new reader of the events that match and that the limiter passes. Without a limiter all
// pass. The reader has room for as many events as room says. Close it.
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

// replace sets who listens. mu is held.
func (f *Feed) replace(readers []*Reader) {
	if len(readers) == 0 {
		f.readers.Store(nil)
		return
	}
	f.readers.Store(&readers)
}

// missed returns how many events were over the limit, and how many found no room, since the last call.
func (r *Reader) missed() (over, lost uint64) { return r.over.Swap(0), r.lost.Swap(0) }

// Close ends the listening.
func (r *Reader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.replace(slices.DeleteFunc(slices.Clone(r.feed.all()), func(o *Reader) bool { return o == r }))
}
