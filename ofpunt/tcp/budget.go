// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/share"
)

// budget bounds bytes of connections (package share). An owner has at most a quarter.
type budget struct {
	max int // bytes

	// mu guards all below.
	mu       sync.Mutex
	used     int
	networks map[any]int
	owners   map[any]int
	// closed at the next release, nil without a waiter
	freed chan struct{}
}

func newBudget(size int) *budget {
	return &budget{max: size, networks: map[any]int{}, owners: map[any]int{}}
}

func (b *budget) acquire(of Key, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acquireLocked(of, n)
}

// mu is held.
func (b *budget) acquireLocked(of Key, n int) bool {
	use := share.Usage{All: b.used, Network: b.networks[of.Network], Owner: b.owners[of.Owner]}
	if (share.Capacity{All: b.max, Owner: b.max / 4}).Exceeded(use, n) != share.None {
		return false
	}
	b.used += n
	b.networks[of.Network] += n
	b.owners[of.Owner] += n
	return true
}

// acquireWait reports false at the deadline or when done is closed.
func (b *budget) acquireWait(of Key, n int, deadline time.Time, done <-chan struct{}) bool {
	var late <-chan time.Time // nil before the first wait
	for {
		b.mu.Lock()
		if b.acquireLocked(of, n) {
			b.mu.Unlock()
			return true
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		if late == nil {
			timer := time.NewTimer(time.Until(deadline))
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

func (b *budget) release(of Key, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	countDown(b.networks, of.Network, n)
	countDown(b.owners, of.Owner, n)
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

func countDown(m map[any]int, key any, n int) {
	if m[key] -= n; m[key] == 0 {
		delete(m, key)
	}
}
