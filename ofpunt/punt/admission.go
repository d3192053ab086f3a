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

// stuckTime is how long nothing may leave the chains while others are rejected,
// before they count as stuck: twice what each query may take.
const stuckTime = 2 * answerDeadline

// admission has the queries in flight of one server, bounded in all, by network and by guest
// (package share), and by the limits that guests have by their labels. Readers of connections
// admit, workers release; neither waits for the other. The limits are enforced here, before the
// chain, as a plugin's own (forward has one) is shared by all tenants.
type admission struct {
	// counts are the counts of the bridge: queries in flight of the server before count too.
	counts *counts
	slots  []atomic.Pointer[Exchange]
	// explained is the query that an operator explains, nil for none. It has no slot and is not counted, but
	// the loop guard has to see it.
	explained atomic.Pointer[Exchange]
	count     atomic.Int64
	// released counts the queries that have left a chain. seen is the count at the last call of watch; only
	// watch uses it. progress is when the count had last changed, in Unix nanoseconds. rejected is set once a
	// limit for all guests has rejected a query since then.
	released atomic.Int64
	seen     int64
	progress atomic.Int64
	rejected atomic.Bool

	// cursor is where the next free slot is looked for. counts.mu guards it.
	cursor int
}

// counts counts the queries in flight of all servers of a bridge.
type counts struct {
	all atomic.Int64

	// mu guards what follows. Readers of connections take it, of which there are two for a
	// while when a reload changes the connection.
	mu       sync.Mutex
	guests   map[account]*inFlightCount
	networks map[networkKey]*inFlightCount
	limits   map[string]*inFlightCount // by guests.Limit.Name
}

func newCounts() *counts {
	return &counts{guests: map[account]*inFlightCount{}, networks: map[networkKey]*inFlightCount{}, limits: map[string]*inFlightCount{}}
}

// account is whom limits are for: a guest, and the network of which it uses a part.
type account struct {
	guest   placement.Key
	network networkKey
}

// networkKey identifies a network to the limits: by its tunnel key with OVN, else by its name.
type networkKey struct {
	datapath uint32
	name     string
}

// accountOf returns the account of the sender of a packet. The sender may be unknown. owner has the OpenFlow
// port, nil if the owner is not known. An interface that names no network counts as a network.
func accountOf(kind placement.Kind, in *openflow.PacketIn, owner *vswitch.Interface) (a account) {
	a.guest, _ = placement.KeyOf(kind, in, owner != nil && owner.Localnet != "")
	a.network.datapath = a.guest.Datapath
	if kind != placement.OVN && owner != nil {
		a.network.name = cmp.Or(owner.NetworkID, owner.IfaceID)
	}
	return a
}

// inFlightCount counts the queries of a guest, of a network, or of the guests that have a limit.
type inFlightCount struct{ n atomic.Int64 }

// maxIdleGuests is how many guests without a query are remembered before they
// are swept out.
const maxIdleGuests = 4096

func newAdmission(size int) *admission {
	a := &admission{counts: newCounts(), slots: make([]atomic.Pointer[Exchange], size)}
	a.progress.Store(time.Now().UnixNano())
	return a
}

// admit gives x a slot. Otherwise it returns which limit is exceeded, as metric.Reason*.
func (a *admission) admit(x *Exchange, concurrentGuest int) (reason string) {
	reason = a.reserve(x, concurrentGuest)
	// What a limit of the guest's own rejects does not show that the chains are stuck: that may
	// be as low as one query.
	if reason != "" && !rejects(x.from.limit, reason) {
		a.rejected.Store(true)
	}
	return reason
}

// reserve does what admit does, without recording a rejection.
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
	// Slots are filled here alone and one is free, as fewer queries are in flight than there are
	// slots, so this ends.
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

// release gives the slot of x back. It is called once for each x that was admitted.
func (a *admission) release(x *Exchange) {
	a.slots[x.slot].Store(nil)
	x.ofGuest.n.Add(-1)
	x.ofNetwork.n.Add(-1)
	if x.ofLimit != nil {
		x.ofLimit.n.Add(-1)
	}
	if x.ready.Load() {
		// Others have not been in a chain, and so are no progress.
		a.released.Add(1)
	}
	a.counts.all.Add(-1)
	a.count.Add(-1)
}

// watch records progress. One goroutine calls it, several times a second.
func (a *admission) watch(now time.Time) {
	released := a.released.Load()
	if a.seen != released || a.count.Load() == 0 {
		a.seen = released
		a.rejected.Store(false)
		a.progress.Store(now.UnixNano())
	}
}

// stuck reports whether queries are rejected and none has left for a long time.
// Guests who ask a dead upstream do not make it so: their queries end.
func (a *admission) stuck(now time.Time) bool {
	return a.rejected.Load() && now.UnixNano()-a.progress.Load() > int64(stuckTime)
}

// sweep forgets guests, networks and limits without a query. The caller holds mu.
func (c *counts) sweep() {
	sweep(c.guests)
	sweep(c.networks)
	sweep(c.limits)
}

func sweep[K comparable](m map[K]*inFlightCount) {
	maps.DeleteFunc(m, func(_ K, c *inFlightCount) bool { return c.n.Load() == 0 })
}

// expire answers for the queries that arrived before t.
func (a *admission) expire(t time.Time) {
	for i := range a.slots {
		if x := a.slots[i].Load(); x != nil && x.arrived.Before(t) {
			x.expire()
		}
	}
}
