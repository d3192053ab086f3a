// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/share"
)

// budget bounds the bytes that are held for the peers of connections (package share). An
// owner has a quarter of them at most.
type budget struct {
	max int // bytes

	mu       sync.Mutex
	held     int
	networks map[any]int
	owners   map[any]int
	// freed is closed when bytes are given back; nil while nobody waits for that.
	freed chan struct{}
}

func newBudget(most int) *budget {
	return &budget{max: most, networks: map[any]int{}, owners: map[any]int{}}
}

// take takes n bytes until they are given back. It reports whether they are there.
func (b *budget) take(of Key, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takeLocked(of, n)
}

func (b *budget) takeLocked(of Key, n int) bool {
	use := share.Use{All: b.held, Network: b.networks[of.Network], Owner: b.owners[of.Owner]}
	if (share.Limit{All: b.max, Owner: b.max / 4}).Exceeded(use, n) != share.None {
		return false
	}
	b.held += n
	b.networks[of.Network] += n
	b.owners[of.Owner] += n
	return true
}

// await takes n bytes once they are there. It reports whether they were in time, and
// before done was closed.
func (b *budget) await(of Key, n int, until time.Time, done <-chan struct{}) bool {
	var late <-chan time.Time
	for {
		b.mu.Lock()
		if b.takeLocked(of, n) {
			b.mu.Unlock()
			return true
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		if late == nil {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-late:
			return false
		case <-done:
			return false
		}
	}
}

// giveBack gives back n bytes that were taken.
func (b *budget) giveBack(of Key, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	countDown(b.networks, of.Network, n)
	countDown(b.owners, of.Owner, n)
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// countDown takes n from a count, which goes with the last of it.
func countDown(m map[any]int, key any, n int) {
	if m[key] -= n; m[key] == 0 {
		delete(m, key)
	}
}
