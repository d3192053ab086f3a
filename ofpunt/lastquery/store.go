// SPDX-License-Identifier: Apache-2.0

package lastquery

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin/pkg/cache"

	"github.com/puntdns/puntdns/internal/origin"
)

const (
	// maxGuests is how many guests a Store has room for. It drops others at random for a new one.
	maxGuests = 4096
	// perGuest is how many queries it stores of a guest, and maxAge for how long: a logical port may get another
	// guest.
	perGuest = 16
	maxAge   = 10 * time.Minute
)

// Guest is a logical port.
type Guest struct {
	Network      origin.Network
	Switch, Port string
}

// Query is a query of a guest, and what has become of it.
type Query struct {
	Arrived time.Time
	Took    time.Duration
	// Name is the name of the question, Type its type.
	Name string
	Type uint16
	// Result and Reason are the values of these labels in coredns_ofpunt_packet_ins_total.
	Result, Reason string
	// Rcode is the rcode of the answer, and Empty is set if the answer has no records.
	Rcode int
	Empty bool
	// Plugin is the plugin that has answered, empty for none. Upstream is the server that it has asked last, the zero
	// AddrPort for none.
	Plugin   string
	Upstream netip.AddrPort
}

// Store has the last queries of guests. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	guests *cache.Cache[*queries]
	// adding is held while a guest is added.
	adding sync.Mutex
}

// queries are the last queries of one guest.
type queries struct {
	guest Guest
	mu    sync.Mutex
	// ring has the queries, and next is where the next one goes. mu guards both.
	ring [perGuest]Query
	next int
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{seed: maphash.MakeSeed(), guests: cache.New[*queries](maxGuests)}
}

// of returns the queries of a guest, nil if none are stored.
func (s *Store) of(g Guest) (q *queries, key uint64) {
	key = maphash.Comparable(s.seed, g)
	if q, ok := s.guests.Get(key); ok && q.guest == g {
		return q, key
	}
	return nil, key
}

// Put stores a query of a guest.
func (s *Store) Put(g Guest, q *Query) {
	all, _ := s.of(g)
	if all == nil {
		all = s.add(g)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.ring[all.next] = *q
	all.next = (all.next + 1) % perGuest
}

// add returns the queries of a guest, which another goroutine may have added by now.
func (s *Store) add(g Guest) *queries {
	s.adding.Lock()
	defer s.adding.Unlock()
	all, key := s.of(g)
	if all == nil {
		all = &queries{guest: g}
		s.guests.Add(key, all)
	}
	return all
}

// Find returns the last query of a guest for a name, which is fully qualified and in lower case, or the last query if
// name is empty. It reports false if none is stored, or only one that is too old.
func (s *Store) Find(g Guest, name string, now time.Time) (q Query, found bool) {
	all, _ := s.of(g)
	if all == nil {
		return q, false
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for i := range perGuest {
		q := &all.ring[(all.next+2*perGuest-1-i)%perGuest]
		if q.Arrived.IsZero() || now.Sub(q.Arrived) > maxAge {
			break
		}
		if name == "" || q.Name == name {
			return *q, true
		}
	}
	return q, false
}
