// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync"
	"sync/atomic"
)

// tcpQuery is what a message and a firstQuery have in common: a query over TCP, which the switch can't resume.
type tcpQuery struct {
	exchange Exchange
	// users counts the goroutines that work on the query: its chain, and the goroutine that answers at the
	// deadline.
	users atomic.Int32
}

// init counts the goroutine of the chain.
func (q *tcpQuery) init() { q.users.Store(1) }

// leave counts a goroutine out, and reports whether it was the last one.
func (q *tcpQuery) leave() (last bool) { return q.users.Add(-1) == 0 }

// answerBeside calls answer and then release on another goroutine, which done counts, unless the last goroutine
// has left the query. An answer waits for its turn on the connection, and other queries at their deadline must
// not wait.
func (q *tcpQuery) answerBeside(done *sync.WaitGroup, answer, release func()) {
	for n := q.users.Load(); n > 0; n = q.users.Load() {
		if q.users.CompareAndSwap(n, n+1) {
			done.Go(func() {
				defer release()
				answer()
			})
			return
		}
	}
}

func (*tcpQuery) overTCP() bool { return true }

func (*tcpQuery) resumable() bool { return false }

func (*tcpQuery) resume() error { return errNotResumable }
