// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"runtime"
	"sync/atomic"
)

// workers serve queries, each on a goroutine that waits for the next one when it
// is done: a chain needs a deep stack, and a new goroutine grows one for each
// query (a seventh of the process's time, measured). Their number is bounded by
// admission; of those without work a few stay.
type workers struct {
	work    chan *query
	waiting atomic.Int64
}

// maxWaiting is how many workers wait for work at most: more than a burst in
// which every processor is busy leaves behind.
var maxWaiting = int64(64 * runtime.GOMAXPROCS(0))

// newWorkers has no worker yet.
func newWorkers() *workers { return &workers{work: make(chan *query)} }

// end lets the workers go when they have no work. There must be no call of serve
// from then on.
func (w *workers) end() { close(w.work) }

// serve hands q to a worker that waits, or to a new one. It never blocks.
func (w *workers) serve(q *query) {
	select {
	case w.work <- q:
	default:
		go w.run(q)
	}
}

func (w *workers) run(q *query) {
	for q != nil {
		q.run()
		q = nil // not kept from the garbage collector
		if w.waiting.Add(1) <= maxWaiting {
			q = <-w.work // nil at the end
		}
		w.waiting.Add(-1)
	}
}
