// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"sync"
	"time"
)

// ledger knows which network has brought which entry of *cache*, so that no network takes more
// than its share. *cache* itself can't tell, and removes entries at random when it is full. So
// what is over the share is not stored.
//
// An entry counts until it can no longer be served, and for minCount at least: expired entries
// take room too, and a network whose entries expire soon would push out those of others.
type ledger struct {
	capacity, share int // entries; share is what one network may have
	mu              sync.Mutex
	// entries are by the hash of their keys in *cache*; guarded by mu.
	entries map[uint64]entry
	// accounts are those of the networks that have entries; guarded by mu.
	accounts map[string]*account
	// start is when times of the ledger begin.
	start time.Time
	// swept is when expired entries were last removed; guarded by mu.
	swept time.Time
}

// entry is an entry of *cache*.
type entry struct {
	account *account
	until   time.Duration // from start, when it ceases to count
}

// account counts the entries of one network.
type account struct {
	network string
	entries int
}

const (
	minCount = time.Minute
	// sweepTime is how long expired entries may stay, for each sweepEntries that there is room
	// for: to remove them takes a millisecond or two for as many.
	sweepTime, sweepEntries = time.Second, 100_000
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
	at := now.Sub(l.start)
	until := at + max(life, minCount)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		if at < e.until {
			l.entries[key] = entry{e.account, until}
			return true
		}
		l.remove(key)
	}
	if l.exceeds(network) {
		l.sweep(now)
		if l.exceeds(network) {
			return false
		}
	}
	if len(l.entries) >= l.capacity {
		for victim := range l.entries {
			l.remove(victim)
			break
		}
	}
	of := l.accounts[network]
	if of == nil {
		of = &account{network: network}
		l.accounts[network] = of
	}
	of.entries++
	l.entries[key] = entry{of, until}
	return true
}

// exceeds reports whether one more entry of the network would be over its share. The caller holds
// mu.
func (l *ledger) exceeds(network string) bool {
	of := l.accounts[network]
	return of != nil && of.entries >= l.share && len(l.entries) >= l.capacity/crowded
}

// sweep removes the entries that have expired, unless it has just done so. The caller holds mu.
func (l *ledger) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepTime*time.Duration(1+l.capacity/sweepEntries) {
		return
	}
	l.swept = now
	for key, e := range l.entries {
		if e.until <= now.Sub(l.start) {
			l.remove(key)
		}
	}
}

// remove removes an entry. The caller holds mu.
func (l *ledger) remove(key uint64) {
	of := l.entries[key].account
	delete(l.entries, key)
	if of.entries--; of.entries == 0 {
		delete(l.accounts, of.network)
	}
}
