// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"container/list"
	"time"

	"github.com/puntdns/puntdns/ofpunt/share"
)

// retryTime is after how long a peer sends its SYN again, at first (RFC 6298, section
// 2.1).
const retryTime = time.Second

// count is what an owner, a network, or all of them have of the connections. The lock of
// the stack guards it.
type count struct {
	// open counts the connections that this end has not closed, half-open ones included.
	open int
	// ended has the others, the one that was closed first in front: gVisor keeps them
	// until the peer has acknowledged the end, and in TIME-WAIT.
	ended list.List
	// changed is when a connection last began or was closed.
	changed time.Time
}

// all is how many connections take memory.
func (c *count) all() int { return c.open + c.ended.Len() }

// changes reports whether connections come and go, so that a peer that tries again may
// well find room.
func (c *count) changes(now time.Time) bool { return now.Sub(c.changed) < retryTime }

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

// countsOf returns those of a key; the lock is held.
func (s *Stack) countsOf(key Key) counts {
	of := func(m map[any]*count, key any) *count {
		if m[key] == nil {
			m[key] = &count{}
		}
		return m[key]
	}
	return counts{ofOwner: of(s.owners, key.Owner), ofNetwork: of(s.networks, key.Network), ofAll: &s.all}
}

// dropEmpty forgets the counts of a key that hold nothing; the lock is held.
func (s *Stack) dropEmpty(key Key) {
	drop := func(m map[any]*count, key any) {
		if is := m[key]; is != nil && is.all() == 0 {
			delete(m, key)
		}
	}
	drop(s.owners, key.Owner)
	drop(s.networks, key.Network)
}

// limits are those of open connections, limitsOfAll of those with what has ended.
var (
	limits      = share.Limit{All: MaxConnections, Owner: MaxOfOwner}
	limitsOfAll = share.Limit{All: MaxConnections, Owner: MaxOfOwner + maxEnded}
)

// open is how many connections are open, all how many take memory.
func (in counts) open() share.Use {
	return share.Use{All: in[ofAll].open, Network: in[ofNetwork].open, Owner: in[ofOwner].open}
}

func (in counts) all() share.Use {
	return share.Use{All: in[ofAll].all(), Network: in[ofNetwork].all(), Owner: in[ofOwner].all()}
}

// full returns the count that leaves no room for another open connection, or nil.
func (in counts) full() *count {
	switch limits.Exceeded(in.open(), 1) {
	case share.OfOwner:
		return in[ofOwner]
	case share.OfNetwork:
		return in[ofNetwork]
	}
	return nil
}

// crowded reports whether a quarter of the room for open connections is left, or less.
func (in counts) crowded() bool { return limits.Crowded(in.open()) }

// tooMany reports whether, with those that have ended, there are too many connections
// for another one.
func (in counts) tooMany() bool { return limitsOfAll.Exceeded(in.all(), 1) != share.None }

// oldestEnded returns the ended connection that makes room: one of the owner if it has
// any, else one of its network, else any.
func (in counts) oldestEnded() *flow {
	for _, c := range in {
		if f := c.oldestEnded(); f != nil {
			return f
		}
	}
	return nil
}

// open counts a flow as open.
func (f *flow) open(now time.Time) {
	for i, c := range f.in {
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
	for i, c := range f.in {
		c.open--
		f.ended[i] = c.ended.PushBack(f)
		c.changed = now
	}
}

// uncount takes a flow out of its counts.
func (f *flow) uncount(now time.Time) {
	for i, c := range f.in {
		if f.ended[i] != nil {
			c.ended.Remove(f.ended[i])
			f.ended[i] = nil
		} else {
			c.open--
		}
		c.changed = now
	}
}
