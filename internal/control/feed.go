// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Feed carries events from where they happen to streams. Publish may be called on the path of a
// query: it takes no lock and waits for nobody, and costs one load of a pointer while nobody
// listens. The zero value is ready.
type Feed[T any] struct {
	// readers is immutable, and nil while there are none. mu is held by those who replace it.
	readers atomic.Pointer[[]*Reader[T]]
	mu      sync.Mutex
}

// Reader is one who listens to a Feed. Its ring has a bounded number of events.
type Reader[T any] struct {
	feed *Feed[T]
	ring chan T
	lost atomic.Uint64
}

// Wanted reports whether anybody listens, so that an event needs to be made.
func (f *Feed[T]) Wanted() bool { return f.readers.Load() != nil }

// Publish gives an event to all who listen. One whose ring is full loses it.
func (f *Feed[T]) Publish(event T) {
	readers := f.readers.Load()
	if readers == nil {
		return
	}
	for _, r := range *readers {
		select {
		case r.ring <- event:
		default:
			r.lost.Add(1)
		}
	}
}

// Listen returns a new reader with room for so many events. It is to be closed.
func (f *Feed[T]) Listen(room int) *Reader[T] {
	r := &Reader[T]{feed: f, ring: make(chan T, room)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(append(slices.Clone(f.all()), r))
	return r
}

func (f *Feed[T]) all() []*Reader[T] {
	if readers := f.readers.Load(); readers != nil {
		return *readers
	}
	return nil
}

// replace sets who listens. mu is held.
func (f *Feed[T]) replace(readers []*Reader[T]) {
	if len(readers) == 0 {
		f.readers.Store(nil)
		return
	}
	f.readers.Store(&readers)
}

// Next returns the next event, and how many were lost since the last call. It waits for one, or for
// the end of ctx, whose error it returns then.
func (r *Reader[T]) Next(ctx context.Context) (event T, lost uint64, err error) {
	select {
	case event = <-r.ring:
		return event, r.lost.Swap(0), nil
	case <-ctx.Done():
		return event, 0, context.Cause(ctx)
	}
}

// Close ends the listening.
func (r *Reader[T]) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.replace(slices.DeleteFunc(slices.Clone(r.feed.all()), func(o *Reader[T]) bool { return o == r }))
}
