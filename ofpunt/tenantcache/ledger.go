// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"math/rand/v2"
	"sync"
	"time"
)

// ledger knows which network has brought which entry of *cache*, so that no network takes more than its
// share. *cache* does not know the networks, and removes entries at random when it is full. So an answer over
// the share is not stored.
//
// An entry counts until it can no longer be served, and for minCount at least: expired entries take room too,
// and a network whose entries expire soon would push out the entries of others.
type ledger struct {
	capacity, share int // entries; share is what one network may have
	mu              sync.Mutex
	// entries are by the hash of their keys in *cache*; guarded by mu.
	entries map[uint64]entry
	// accounts are the accounts of the networks that have entries; guarded by mu.
	accounts map[string]*account
	// order are the keys of entries, and hand is where the sweep goes on in it; guarded by mu.
	order []uint64
	hand  int
	// start is when times of the ledger begin.
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

// newLedger returns a ledger of a cache with that capacity, of which a network may have share
// percent. now is the time.
func newLedger(capacity, share int, now time.Time) *ledger {
	return &ledger{
		capacity: capacity, share: max(1, capacity*share/100),
		entries: map[uint64]entry{}, accounts: map[string]*account{}, start: now,
	}
}

// store notes that an answer is about to be stored, which can be served for the time of life. It
// reports whether it may be: a network that has its share may only replace entries.
func (l *ledger) store(key uint64, network string, now time.Time, life time.Duration) bool {
	at := l.seconds(now)
	until := at + uint32(min(max(life, minCount)+time.Second-1, maxCount)/time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		if at < e.until {
			l.entries[key] = entry{e.account, until, e.index}
			return true
		}
		l.remove(key)
	}
	if l.exceeds(network) {
		l.sweep(at)
		if l.exceeds(network) {
			return false
		}
	}
	if len(l.entries) >= l.capacity {
		l.remove(l.order[rand.IntN(len(l.order))])
	}
	of := l.accounts[network]
	if of == nil {
		of = &account{network: network}
		l.accounts[network] = of
	}
	of.entries++
	l.entries[key] = entry{of, until, uint32(len(l.order))}
	l.order = append(l.order, key)
	return true
}

// drop forgets an entry. It reports whether there was one that could be served.
func (l *ledger) drop(key uint64, now time.Time) (served bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if ok {
		l.remove(key)
	}
	return ok && l.seconds(now) < e.until
}

// exceeds reports whether one more entry of the network would be over its share. The caller holds
// mu.
func (l *ledger) exceeds(network string) bool {
	of := l.accounts[network]
	return of != nil && of.entries >= l.share && len(l.entries) >= l.capacity/crowded
}

// seconds returns the time from start.
func (l *ledger) seconds(now time.Time) uint32 { return uint32(max(0, now.Sub(l.start)/time.Second)) }

// sweep removes what has expired of the next entries. The caller holds mu.
func (l *ledger) sweep(at uint32) {
	for range min(sweepEntries, len(l.order)) {
		if l.hand >= len(l.order) {
			l.hand = 0
		}
		if key := l.order[l.hand]; l.entries[key].until <= at {
			l.remove(key) // another one takes its place
		} else {
			l.hand++
		}
	}
}

// remove removes an entry. The caller holds mu.
func (l *ledger) remove(key uint64) {
	e := l.entries[key]
	last := l.order[len(l.order)-1]
	moved := l.entries[last]
	moved.index = e.index
	l.order[e.index], l.entries[last] = last, moved
	l.order = l.order[:len(l.order)-1]
	delete(l.entries, key)
	of := e.account
	if of.entries--; of.entries == 0 {
		delete(l.accounts, of.network)
	}
}
