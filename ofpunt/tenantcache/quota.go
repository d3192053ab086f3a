// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"math/rand/v2"
	"sync"
	"time"
)

// quota counts the entries of *cache* by the network that has brought them, so that no network takes more than its
// share. *cache* does not know the networks, and removes entries at random when it is full. So an answer over
// the share is not stored.
//
// An entry counts until it can no longer be served, and for minCount at least: expired entries take room too,
// and a network whose entries expire soon would push out the entries of others.
type quota struct {
	capacity, share int // entries; share is what one network may have
	mu              sync.Mutex
	// entries are by the hash of their keys in *cache*; guarded by mu.
	entries map[uint64]entry
	// accounts are the accounts of the networks that have entries; guarded by mu.
	accounts map[string]*account
	// order are the keys of entries, and hand is where the sweep goes on in it; guarded by mu.
	order []uint64
	hand  int
	// start is when times of the quota begin.
	start time.Time
}

// entry is an entry of *cache*.
type entry struct {
	account *account
	until   uint32 // when it ceases to count, in seconds from start
	index   uint32 // of its key in order
}

// account counts the entries of one network.
type account struct {
	network string
	entries int
}

const (
	minCount = time.Minute
	// maxCount bounds how long an entry counts.
	maxCount = 10 * 365 * 24 * time.Hour
	// sweepEntries is how many entries a sweep looks at, so that it is short however many there
	// are.
	sweepEntries = 32
	// crowded is the part of the capacity, one in so many, up to which there is no share.
	crowded = 2
)

// newQuota returns the quota of a cache with that capacity, of which a network may have share
// percent. now is the time.
func newQuota(capacity, share int, now time.Time) *quota {
	return &quota{
		capacity: capacity, share: max(1, capacity*share/100),
		entries: map[uint64]entry{}, accounts: map[string]*account{}, start: now,
	}
}

// store notes that an answer is about to be stored, which can be served for the time of life. It
// reports whether it may be: a network that has its share may only replace entries.
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

// drop forgets an entry. It reports whether there was one that could be served.
func (q *quota) drop(key uint64, now time.Time) (served bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.entries[key]
	if ok {
		q.remove(key)
	}
	return ok && q.seconds(now) < e.until
}

// exceeds reports whether one more entry of the network would be over its share. The caller holds
// mu.
func (q *quota) exceeds(network string) bool {
	of := q.accounts[network]
	return of != nil && of.entries >= q.share && len(q.entries) >= q.capacity/crowded
}

// seconds returns the time from start.
func (q *quota) seconds(now time.Time) uint32 { return uint32(max(0, now.Sub(q.start)/time.Second)) }

// sweep removes what has expired of the next entries. The caller holds mu.
func (q *quota) sweep(at uint32) {
	for range min(sweepEntries, len(q.order)) {
		if q.hand >= len(q.order) {
			q.hand = 0
		}
		if key := q.order[q.hand]; q.entries[key].until <= at {
			q.remove(key) // another one takes its place
		} else {
			q.hand++
		}
	}
}

// remove removes an entry. The caller holds mu.
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
