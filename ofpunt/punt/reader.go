// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// readerTime bounds the reader's queries of one read: some hundred.
const readerTime = time.Millisecond

type queryTask interface {
	openflow.Task
	task
}

// start runs a query on a worker, or on the reader within readerTime if the chains answer from memory: waking a
// worker takes a sixth of a query's CPU time.
func (c *Channel) start(q queryTask, x *Exchange) {
	if x.arrived.Sub(c.conn.ReadAt()) < readerTime && x.server.mayRunOnReader(x.arrived) {
		c.conn.RunAfterRead(q)
		return
	}
	c.dispatch(q)
}

// TaskLasts records that a query has blocked the reader.
func TaskLasts(t openflow.Task) {
	switch t := t.(type) {
	case *datagram:
		t.server.readerBlocked(t.channel.intake.bridge.Name, time.Now())
	case *firstQuery:
		t.exchange.server.readerBlocked(t.intake.bridge.Name, time.Now())
	}
}

// workersOnlyTime is how long only workers run queries after one has blocked a reader.
const workersOnlyTime = time.Minute

func (s *Server) mayRunOnReader(now time.Time) bool {
	return (s.FromMemory || s.FromCache) && now.UnixNano() > s.workersUntil.Load()
}

func (s *Server) readerBlocked(bridge string, now time.Time) {
	if s.workersUntil.Swap(now.Add(workersOnlyTime).UnixNano()) == 0 {
		log.Infof("Bridge %s: a query kept the reader of the connection for some 100 ms, others are left to workers for a minute", bridge)
	}
}

// runsOnReader reports whether the databases have the name, or *cache* has most answers and the chain calls
// LeaveReader before it blocks.
func (x *Exchange) runsOnReader() bool {
	s := x.server
	return s.FromCache && s.hits.pays() || s.FromMemory && x.isFound()
}

// hitBalance decides whether the reader runs chains with *cache*. A hit saves waking a worker; leaving the reader
// costs several times as much.
type hitBalance struct{ balance atomic.Int64 }

const (
	// hitsPerMiss is how many hits pay for one miss. Measured: 10 in batches of 16 queries, 1 for single queries.
	hitsPerMiss = 8
	maxBalance  = 8 * hitsPerMiss
)

func (h *hitBalance) hit() {
	if h.balance.Load() < maxBalance {
		h.balance.Add(1)
	}
}

func (h *hitBalance) miss() {
	if h.balance.Load() > -maxBalance {
		h.balance.Add(-hitsPerMiss)
	}
}

func (h *hitBalance) pays() bool { return h.balance.Load() >= 0 }
