// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync"

	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// Limit is what some guests may use in the place of what Config says of all. What is 0 is as for
// all.
type Limit struct {
	// Name is how metrics name it. A server has each name once, and that of another server
	// with the same name is the same limit.
	Name string
	// Concurrent is how many queries may be in flight of all guests that have the limit,
	// ConcurrentGuest how many of one. Neither or both are 0.
	Concurrent, ConcurrentGuest int
	// Connections is how many TCP connections one guest may have open.
	Connections int
}

// guestLimits remembers which guest has which limit, as long as that can't be another one: to
// find it takes strings of labels, and no query is to wait for that.
type guestLimits struct {
	// mu guards of. Readers of connections take it, as for admission. It is not held while a
	// limit is looked for: two readers may look for that of one guest.
	mu sync.Mutex
	of map[guestKey]guestLimit
}

// guestLimit is the limit of a guest, nil for none, as it was found.
type guestLimit struct {
	limit   *Limit
	foundBy foundBy
}

// foundBy is what the limit of a guest depends on.
type foundBy struct {
	// inPort is that of the packet, and hasOwner is set if its owner is known.
	inPort   uint32
	hasOwner bool
	// external is the sender's address if it is an external port, of which two may have one
	// guestKey; else it is zero.
	external [6]byte
	// ports is the version of what the databases say of guests, view that of the local
	// database, and externalIDs that of what it follows without another view.
	ports, view, externalIDs uint64
}

// limitOf returns the limit of the sender of a packet, nil for none.
func (s *Server) limitOf(p *packet) *Limit {
	if len(s.Limits) == 0 {
		return nil
	}
	// The versions are read before what they are of.
	by := foundBy{inPort: p.inPort, hasOwner: p.owner != nil, ports: s.PortsVersion()}
	if view := p.channel.intake.bridge.Ports.View(); view != nil {
		by.view = view.Version
		by.externalIDs, _ = view.ExternalIDsVersion()
	}
	by.external, _ = p.externalMAC()
	known, ok := s.guestLimits.get(p.guest)
	if ok && known.foundBy == by {
		return known.limit
	}
	known = guestLimit{foundBy: by}
	if i := s.FindLimit(&p.in, p.owner); i >= 0 {
		known.limit = &s.Limits[i]
	}
	if p.ownerNow() == p.owner { // else the packet is from before the view
		s.guestLimits.set(p.guest, known)
	}
	return known.limit
}

// get returns what is remembered of a guest, and reports whether anything is.
func (l *guestLimits) get(guest guestKey) (known guestLimit, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok = l.of[guest]
	return known, ok
}

// set remembers the limit of a guest, in the place of one found earlier.
func (l *guestLimits) set(guest guestKey, found guestLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= maxIdleGuests {
		l.of = make(map[guestKey]guestLimit)
	}
	l.of[guest] = found
}

// connections returns how many TCP connections a guest may have open.
func (l *Limit) connections() int {
	if l == nil || l.Connections == 0 {
		return tcp.MaxOfOwner
	}
	return l.Connections
}

// isConcurrent reports whether the limit is on queries in flight.
func (l *Limit) isConcurrent() bool { return l != nil && l.ConcurrentGuest > 0 }

// rejects reports whether a query that was not admitted for that reason was rejected by the limit.
// One that is on queries in flight has both bounds, and its ConcurrentGuest stands in the place of
// that in Config, so a port limit was its own.
func (l *Limit) rejects(reason string) bool {
	return l.isConcurrent() && (reason == metric.ReasonPortLimit || reason == metric.ReasonLimit)
}

// countLimit counts an exchange that was not admitted for that reason, if that is a limit of the
// guest's own.
func (x *Exchange) countLimit(reason string) {
	if l := x.from.limit; l.rejects(reason) {
		x.from.channel.intake.bridge.Tally.LimitRefused(l.Name, metric.PropertyConcurrent)
	}
}
