// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync"
	"sync/atomic"
)

// tcpQuery is common to message and firstQuery.
type tcpQuery struct {
	exchange Exchange
	// users counts the goroutines of the chain and of the answer at the deadline.
	users atomic.Int32
}

func (q *tcpQuery) init() { q.users.Store(1) }

func (q *tcpQuery) leave() (last bool) { return q.users.Add(-1) == 0 }

// answerBeside calls answer and release on another goroutine, which done counts, unless all goroutines have left.
// Sending may block, which must not delay other queries' deadlines.
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
