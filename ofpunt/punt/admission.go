// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/share"
)

// stuckTime is the time without progress after which chains that reject queries count as stuck.
const stuckTime = 2 * answerDeadline

// admission bounds the queries in flight of one server in total, by network, guest (package share) and label. It
// acts before the chain because all tenants share a plugin's own limit, such as *forward*'s.
type admission struct {
	// shared with the previous server
	counts *counts
	slots  []atomic.Pointer[Exchange]
	// explained is the query of Intake.Ask for the loop guard, nil for none. It has no slot.
	explained atomic.Pointer[Exchange]
	count     atomic.Int64
	// released counts queries that left a chain, seen is its last value in watch. progress, in Unix nanoseconds, is
	// when it last changed. rejected is set if a general limit has rejected a query since.
	released atomic.Int64
	seen     int64
	progress atomic.Int64
	rejected atomic.Bool

	// guarded by counts.mu
	cursor int
}

type counts struct {
	all atomic.Int64

	// mu guards the fields below. During a reload two readers take it.
	mu       sync.Mutex
	guests   map[account]*inFlightCount
	networks map[networkKey]*inFlightCount
	limits   map[string]*inFlightCount // by guests.Limit.Name
}

func newCounts() *counts {
	return &counts{guests: map[account]*inFlightCount{}, networks: map[networkKey]*inFlightCount{}, limits: map[string]*inFlightCount{}}
}

type account struct {
	guest   placement.Key
	network networkKey
}

// networkKey is the tunnel key with OVN, else the name.
type networkKey struct {
	datapath uint32
	name     string
}

// accountOf returns the account of the sender. owner is nil if unknown. An interface without a network counts as a
// network.
func accountOf(kind placement.Kind, in *openflow.PacketIn, owner *vswitch.Interface) (a account) {
	a.guest, _ = placement.KeyOf(kind, in, owner != nil && owner.Localnet != "")
	a.network.datapath = a.guest.Datapath
	if kind != placement.OVN && owner != nil {
		a.network.name = cmp.Or(owner.NetworkID, owner.IfaceID)
	}
	return a
}

type inFlightCount struct{ n atomic.Int64 }

// maxIdleGuests is how many guests have a count before sweep runs.
const maxIdleGuests = 4096

func newAdmission(size int) *admission {
	a := &admission{counts: newCounts(), slots: make([]atomic.Pointer[Exchange], size)}
	a.progress.Store(time.Now().UnixNano())
	return a
}

// admit gives x a slot, or returns the exceeded limit as metric.Reason*.
func (a *admission) admit(x *Exchange, concurrentGuest int) (reason string) {
	reason = a.reserve(x, concurrentGuest)
	// A guest's own limit may be one query: its rejections do not show that the chains are stuck.
	if reason != "" && !rejects(x.from.limit, reason) {
		a.rejected.Store(true)
	}
	return reason
}

func (a *admission) reserve(x *Exchange, concurrentGuest int) (reason string) {
	c := a.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.guests) >= maxIdleGuests {
		c.sweep()
	}
	g, network, ofLimit := countOf(c.guests, x.from.account), countOf(c.networks, x.from.account.network), (*inFlightCount)(nil)
	limit := x.from.limit
	if isConcurrent(limit) {
		concurrentGuest, ofLimit = limit.ConcurrentGuest, countOf(c.limits, limit.Name)
	}
	use := share.Usage{All: int(c.all.Load()), Network: int(network.n.Load()), Owner: int(g.n.Load())}
	switch bound := (share.Capacity{All: len(a.slots), Owner: concurrentGuest}).Exceeded(use, 1); {
	case bound == share.OfOwner:
		return metric.ReasonPortLimit
	case ofLimit != nil && int(ofLimit.n.Load()) >= limit.Concurrent:
		return metric.ReasonLimit
	case bound == share.OfNetwork:
		return metric.ReasonOverload
	}
	// The loop ends: only reserve fills slots, and a slot is free.
	for !a.slots[a.cursor].CompareAndSwap(nil, x) {
		a.cursor = (a.cursor + 1) % len(a.slots)
	}
	x.slot, x.ofGuest, x.ofNetwork, x.ofLimit = a.cursor, g, network, ofLimit
	a.cursor = (a.cursor + 1) % len(a.slots)
	g.n.Add(1)
	network.n.Add(1)
	if ofLimit != nil {
		ofLimit.n.Add(1)
	}
	c.all.Add(1)
	a.count.Add(1)
	return ""
}

func countOf[K comparable](m map[K]*inFlightCount, key K) *inFlightCount {
	c := m[key]
	if c == nil {
		c = &inFlightCount{}
		m[key] = c
	}
	return c
}

// release frees the slot of x, once.
func (a *admission) release(x *Exchange) {
	a.slots[x.slot].Store(nil)
	x.ofGuest.n.Add(-1)
	x.ofNetwork.n.Add(-1)
	if x.ofLimit != nil {
		x.ofLimit.n.Add(-1)
	}
	if x.ready.Load() {
		// Only queries that were in a chain are progress.
		a.released.Add(1)
	}
	a.counts.all.Add(-1)
	a.count.Add(-1)
}

// watch records progress several times a second, on one goroutine.
func (a *admission) watch(now time.Time) {
	released := a.released.Load()
	if a.seen != released || a.count.Load() == 0 {
		a.seen = released
		a.rejected.Store(false)
		a.progress.Store(now.UnixNano())
	}
}

// stuck reports whether queries are rejected and none has left a chain for stuckTime. Queries to a dead upstream
// leave their chains.
func (a *admission) stuck(now time.Time) bool {
	return a.rejected.Load() && now.UnixNano()-a.progress.Load() > int64(stuckTime)
}

// The caller holds mu.
func (c *counts) sweep() {
	sweep(c.guests)
	sweep(c.networks)
	sweep(c.limits)
}

func sweep[K comparable](m map[K]*inFlightCount) {
	maps.DeleteFunc(m, func(_ K, c *inFlightCount) bool { return c.n.Load() == 0 })
}

func (a *admission) expire(t time.Time) {
	for i := range a.slots {
		if x := a.slots[i].Load(); x != nil && x.arrived.Before(t) {
			x.expire()
		}
	}
}
