// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"runtime"
	"sync/atomic"
)

// task is the work of a worker.
type task interface{ run() }

// workers run tasks, most of them queries, each on a goroutine that waits for the next task when it is done:
// a chain needs a deep stack, and a new goroutine grows one for each query (a seventh of the process's time,
// measured). Admission bounds their number, apart from one worker for a probe. Without work a few workers
// stay.
type workers struct {
	work    chan task
	waiting atomic.Int64
}

// maxWaiting is how many workers wait for work at most: more than a burst in
// which every processor is busy leaves behind.
var maxWaiting = int64(64 * runtime.GOMAXPROCS(0))

// newWorkers has no worker yet.
func newWorkers() *workers { return &workers{work: make(chan task)} }

// end ends the workers as soon as they have no work. There must be no call of serve from then
// on.
func (w *workers) end() { close(w.work) }

// serve hands t to a worker that waits, or to a new one. It never blocks.
func (w *workers) serve(t task) {
	select {
	case w.work <- t:
	default:
		go w.run(t)
	}
}

func (w *workers) run(t task) {
	for t != nil {
		t.run()
		t = nil // not kept from the garbage collector
		if w.waiting.Add(1) <= maxWaiting {
			t = <-w.work // nil at the end
		}
		w.waiting.Add(-1)
	}
}
