// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"container/list"
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
	ended list.List
	// changed is when a connection last began or was closed.
	changed time.Time
}

// all returns how many connections need memory.
func (c *count) all() int { return c.open + c.ended.Len() }

// changes reports whether a connection has begun or was closed lately, so that there may be
// room when a peer sends its SYN again.
func (c *count) changes(now time.Time) bool { return now.Sub(c.changed) < synRetry }

// oldestEnded returns the connection that was closed first, nil if none was.
func (c *count) oldestEnded() *flow {
	if e := c.ended.Front(); e != nil {
		return e.Value.(*flow)
	}
	return nil
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

// limit is that of open connections, limitOfAll that of open and ended ones.
func (in counts) limit() share.Limit {
	return share.Limit{All: MaxConnections, Owner: in[ofOwner].most}
}

func (in counts) limitOfAll() share.Limit {
	return share.Limit{All: MaxConnections, Owner: 2 * in[ofOwner].most}
}

// open returns how many connections are open.
func (in counts) open() share.Use {
	return share.Use{All: in[ofAll].open, Network: in[ofNetwork].open, Owner: in[ofOwner].open}
}

// all returns how many connections need memory.
func (in counts) all() share.Use {
	return share.Use{All: in[ofAll].all(), Network: in[ofNetwork].all(), Owner: in[ofOwner].all()}
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

// oldestEnded returns the ended connection that is to be evicted first: one of the owner if
// it has any, else one of its network, else any.
func (in counts) oldestEnded() *flow {
	for _, c := range in {
		if f := c.oldestEnded(); f != nil {
			return f
		}
	}
	return nil
}

// open counts a flow as open: a new one, or one that has ended and begins again.
func (f *flow) open(now time.Time) {
	for i, c := range f.counts {
		if f.ended[i] != nil {
			c.ended.Remove(f.ended[i])
			f.ended[i] = nil
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
		f.ended[i] = c.ended.PushBack(f)
		c.changed = now
	}
}

// uncount removes a flow from its counts.
func (f *flow) uncount(now time.Time) {
	for i, c := range f.counts {
		if f.ended[i] != nil {
			c.ended.Remove(f.ended[i])
			f.ended[i] = nil
		} else {
			c.open--
		}
		c.changed = now
	}
}
