// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"math/rand/v2"
	"sync"
	"time"
)

// quota bounds each network's entries in *cache*, which ignores networks and evicts at random when full. An answer
// over the share is not stored.
//
// An entry counts while it can be served, and for at least minCount: expired entries take room too, so a network
// with short TTLs would evict others' entries.
type quota struct {
	capacity, share int // entries; share bounds one network
	mu              sync.Mutex
	// by quotaKey; guarded by mu
	entries map[uint64]entry
	// by network; guarded by mu
	accounts map[string]*account
	// order has the keys of entries, hand is the next sweep's position; guarded by mu.
	order []uint64
	hand  int
	// origin of entry.until
	start time.Time
}

type entry struct {
	account *account
	until   uint32 // in seconds from start
	index   uint32 // of its key in order
}

type account struct {
	network string
	entries int
}

const (
	minCount     = time.Minute
	maxCount     = 10 * 365 * 24 * time.Hour
	sweepEntries = 32
	// The share applies once capacity/crowded entries are stored.
	crowded = 2
)

// share is in percent.
func newQuota(capacity, share int, now time.Time) *quota {
	return &quota{
		capacity: capacity, share: max(1, capacity*share/100),
		entries: map[uint64]entry{}, accounts: map[string]*account{}, start: now,
	}
}

// store counts an answer for the time life. It reports whether *cache* may store the answer: a network at its share
// may only replace entries.
func (q *quota) store(key uint64, network string, now time.Time, life time.Duration) bool {
	at := q.seconds(now)
	until := at + uint32(min(max(life, minCount)+time.Second-1, maxCount)/time.Second)
	q.mu.Lock()
	defer q.mu.Unlock()
	if e, ok := q.entries[key]; ok {
		if at < e.until {
			q.entries[key] = entry{e.account, until, e.index}
			return true
		}
		q.remove(key)
	}
	if q.exceeds(network) {
		q.sweep(at)
		if q.exceeds(network) {
			return false
		}
	}
	if len(q.entries) >= q.capacity {
		q.remove(q.order[rand.IntN(len(q.order))])
	}
	of := q.accounts[network]
	if of == nil {
		of = &account{network: network}
		q.accounts[network] = of
	}
	of.entries++
	q.entries[key] = entry{of, until, uint32(len(q.order))}
	q.order = append(q.order, key)
	return true
}

// drop reports whether the entry could be served.
func (q *quota) drop(key uint64, now time.Time) (served bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.entries[key]
	if ok {
		q.remove(key)
	}
	return ok && q.seconds(now) < e.until
}

// The caller holds mu.
func (q *quota) exceeds(network string) bool {
	of := q.accounts[network]
	return of != nil && of.entries >= q.share && len(q.entries) >= q.capacity/crowded
}

func (q *quota) seconds(now time.Time) uint32 { return uint32(max(0, now.Sub(q.start)/time.Second)) }

// sweep removes expired entries of the next sweepEntries. The caller holds mu.
func (q *quota) sweep(at uint32) {
	for range min(sweepEntries, len(q.order)) {
		if q.hand >= len(q.order) {
			q.hand = 0
		}
		if key := q.order[q.hand]; q.entries[key].until <= at {
			q.remove(key) // the last entry takes its place
		} else {
			q.hand++
		}
	}
}

// The caller holds mu.
func (q *quota) remove(key uint64) {
	e := q.entries[key]
	last := q.order[len(q.order)-1]
	moved := q.entries[last]
	moved.index = e.index
	q.order[e.index], q.entries[last] = last, moved
	q.order = q.order[:len(q.order)-1]
	delete(q.entries, key)
	of := e.account
	if of.entries--; of.entries == 0 {
		delete(q.accounts, of.network)
	}
}
