// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/share"
)

// synRetry is the first retransmission timeout of a SYN (RFC 6298, section 2.1).
const synRetry = time.Second

// count is guarded by Stack.mu.
type count struct {
	// owner's limit, as of the last Deliver
	most int
	// not closed by this end, with half-open connections
	open int
	// Closed by this end, oldest first. They need memory until our FIN is acknowledged, and in TIME-WAIT.
	ended endedFlows
	// when a connection last began or was closed
	changed time.Time
}

// all counts the connections that need memory.
func (c *count) all() int { return c.open + c.ended.n }

// changes reports whether a retransmitted SYN may find room.
func (c *count) changes(now time.Time) bool { return now.Sub(c.changed) < synRetry }

// An intrusive list saves three allocations a connection.
type endedFlows struct {
	first, last *flow
	n           int
}

type link struct{ before, behind *flow }

// i is the index of the list's count.
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

type counts [3]*count

const (
	ofOwner = iota
	ofNetwork
	ofAll
)

// Stack.mu is held.
func (s *Stack) countsOf(key Key) counts {
	of := func(m map[any]*count, key any) *count {
		if m[key] == nil {
			m[key] = &count{}
		}
		return m[key]
	}
	return counts{ofOwner: of(s.owners, key.Owner), ofNetwork: of(s.networks, key.Network), ofAll: &s.all}
}

// Stack.mu is held.
func (s *Stack) dropEmpty(key Key) {
	drop := func(m map[any]*count, key any) {
		if c := m[key]; c != nil && c.all() == 0 {
			delete(m, key)
		}
	}
	drop(s.owners, key.Owner)
	drop(s.networks, key.Network)
}

// limit is for open connections, limitOfAll for open and ended ones.
func (in counts) limit() share.Capacity {
	return share.Capacity{All: MaxConnections, Owner: in[ofOwner].most}
}

func (in counts) limitOfAll() share.Capacity {
	return share.Capacity{All: MaxConnections, Owner: 2 * in[ofOwner].most}
}

func (in counts) open() share.Usage {
	return share.Usage{All: in[ofAll].open, Network: in[ofNetwork].open, Owner: in[ofOwner].open}
}

func (in counts) all() share.Usage {
	return share.Usage{All: in[ofAll].all(), Network: in[ofNetwork].all(), Owner: in[ofOwner].all()}
}

// full returns the count at its limit, or nil.
func (in counts) full() (*count, share.Bound) {
	switch bound := in.limit().Exceeded(in.open(), 1); bound {
	case share.OfOwner:
		return in[ofOwner], bound
	case share.OfNetwork:
		return in[ofNetwork], bound
	}
	return nil, share.None
}

func (in counts) crowded() bool { return in.limit().Crowded(in.open()) }

func (in counts) tooMany() bool { return in.limitOfAll().Exceeded(in.all(), 1) != share.None }

// oldestEnded returns the connection to evict: of the owner, else of its network, else of all.
func (in counts) oldestEnded() *flow {
	for _, c := range in {
		if c.ended.first != nil {
			return c.ended.first
		}
	}
	return nil
}

// f is new or ended.
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
