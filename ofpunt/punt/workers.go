// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"runtime"
	"sync/atomic"
)

type task interface{ run() }

// workers reuse goroutines: growing a deep stack for each query took a seventh of the CPU time. Admission bounds
// their number, plus one for a probe.
type workers struct {
	work    chan task
	waiting atomic.Int64
}

// maxWaiting exceeds the idle workers after a burst on all processors.
var maxWaiting = int64(64 * runtime.GOMAXPROCS(0))

type function func()

func (f function) run() { f() }

func newWorkers() *workers { return &workers{work: make(chan task)} }

// serve must not be called after end.
func (w *workers) end() { close(w.work) }

// serve never blocks.
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
		t = nil // for the garbage collector
		if w.waiting.Add(1) <= maxWaiting {
			t = <-w.work // nil at the end
		}
		w.waiting.Add(-1)
	}
}
