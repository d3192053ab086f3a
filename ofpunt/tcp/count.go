// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/share"
)

// synRetry is after how long a peer sends its SYN again for the first time (RFC 6298,
// section 2.1).
const synRetry = time.Second

// count counts the connections of an owner, of a network, or all. Stack.mu guards it.
type count struct {
	// most is how many an owner may have open, as its last segment said; unused of others.
	most int
	// open counts the connections that this end has not closed, half-open ones included.
	open int
	// ended has the flows of the others, the one that was closed first in front. They need
	// memory until the peer has acknowledged our FIN, and in TIME-WAIT.
	ended endedFlows
	// changed is when a connection last began or was closed.
	changed time.Time
}

// all returns how many connections need memory.
func (c *count) all() int { return c.open + c.ended.n }

// changes reports whether a connection has begun or was closed lately, so that there may be
// room when a peer sends its SYN again.
func (c *count) changes(now time.Time) bool { return now.Sub(c.changed) < synRetry }

// endedFlows is a list of flows that one count has. The flows are linked with each other, as an element of
// a list for each of three counts would be an allocation for each connection.
type endedFlows struct {
	first, last *flow
	n           int
}

// link links a flow with its neighbours in the list of one of its counts.
type link struct{ before, behind *flow }

// push puts a flow at the end of a list. The list is the list of count i of the flow.
func (l *endedFlows) push(f *flow, i int) {
	f.links[i] = link{before: l.last}
	if l.last == nil {
		l.first = f
	} else {
		l.last.links[i].behind = f
	}
	l.last = f
	l.n++
}

// remove takes a flow out of the list.
func (l *endedFlows) remove(f *flow, i int) {
	is := f.links[i]
	if is.before == nil {
		l.first = is.behind
	} else {
		is.before.links[i].behind = is.behind
	}
	if is.behind == nil {
		l.last = is.before
	} else {
		is.behind.links[i].before = is.before
	}
	f.links[i] = link{}
	l.n--
}

// counts are those that a flow counts in: of its owner, its network, and all.
type counts [3]*count

const (
	ofOwner = iota
	ofNetwork
	ofAll
)

// countsOf returns the counts of a key. Stack.mu is held.
func (s *Stack) countsOf(key Key) counts {
	of := func(m map[any]*count, key any) *count {
		if m[key] == nil {
			m[key] = &count{}
		}
		return m[key]
	}
	return counts{ofOwner: of(s.owners, key.Owner), ofNetwork: of(s.networks, key.Network), ofAll: &s.all}
}

// dropEmpty deletes the counts of a key that are empty. Stack.mu is held.
func (s *Stack) dropEmpty(key Key) {
	drop := func(m map[any]*count, key any) {
		if c := m[key]; c != nil && c.all() == 0 {
			delete(m, key)
		}
	}
	drop(s.owners, key.Owner)
	drop(s.networks, key.Network)
}

// limit is the limit of open connections, limitOfAll the limit of open and ended ones.
func (in counts) limit() share.Capacity {
	return share.Capacity{All: MaxConnections, Owner: in[ofOwner].most}
}

func (in counts) limitOfAll() share.Capacity {
	return share.Capacity{All: MaxConnections, Owner: 2 * in[ofOwner].most}
}

// open returns how many connections are open.
func (in counts) open() share.Usage {
	return share.Usage{All: in[ofAll].open, Network: in[ofNetwork].open, Owner: in[ofOwner].open}
}

// all returns how many connections need memory.
func (in counts) all() share.Usage {
	return share.Usage{All: in[ofAll].all(), Network: in[ofNetwork].all(), Owner: in[ofOwner].all()}
}

// full returns the count that leaves no room for another open connection, nil for none, and whose
// limit that is.
func (in counts) full() (*count, share.Bound) {
	switch bound := in.limit().Exceeded(in.open(), 1); bound {
	case share.OfOwner:
		return in[ofOwner], bound
	case share.OfNetwork:
		return in[ofNetwork], bound
	}
	return nil, share.None
}

// crowded reports whether a quarter of the room for open connections is left, or less.
func (in counts) crowded() bool { return in.limit().Crowded(in.open()) }

// tooMany reports whether open and ended connections together leave no room for another
// one.
func (in counts) tooMany() bool { return in.limitOfAll().Exceeded(in.all(), 1) != share.None }

// oldestEnded returns the ended connection to evict first: one of the owner if it has any, else one of its
// network, else any.
func (in counts) oldestEnded() *flow {
	for _, c := range in {
		if c.ended.first != nil {
			return c.ended.first
		}
	}
	return nil
}

// open counts a flow as open: a new one, or one that has ended and begins again.
func (f *flow) open(now time.Time) {
	for i, c := range f.counts {
		if f.hasEnded() {
			c.ended.remove(f, i)
		}
		c.open++
		c.changed = now
	}
	f.endedAt = time.Time{}
}

// end counts an open flow as ended.
func (f *flow) end(now time.Time) {
	if f.hasEnded() {
		return
	}
	f.endedAt = now
	for i, c := range f.counts {
		c.open--
		c.ended.push(f, i)
		c.changed = now
	}
}

// uncount removes a flow from its counts.
func (f *flow) uncount(now time.Time) {
	for i, c := range f.counts {
		if f.hasEnded() {
			c.ended.remove(f, i)
		} else {
			c.open--
		}
		c.changed = now
	}
}
