// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// hitCounter asks the switch for the counters of the flows of this process. It asks when an operator
// does, and no more often than countInterval says: on a node with thousands of guests the counters are
// some megabytes.
type hitCounter struct {
	// turn has its one mark while nobody asks; who has taken it has what follows.
	turn chan struct{}
	// last is what the switch has told, and err why it has not: nil for each other. They are of
	// that connection and of the flows with that cookie.
	last   *flowHits
	err    error
	conn   *openflow.Conn
	cookie uint64
	// next is when the switch may be asked again.
	next time.Time
}

// flowHits is what the switch has told at a time. It is immutable.
type flowHits struct {
	at    time.Time
	flows []openflow.FlowStats
	// says is what the switch says of itself.
	says openflow.Description
}

func newHitCounter() hitCounter {
	c := hitCounter{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

const (
	minCountTime  = time.Second
	countFactor   = 20
	failureFactor = 2
)

// countInterval returns the least time from the begin of a request for the counters to the next one.
// It grows with the time that the request took. It grows less where the switch gave no answer, since
// the error is repeated until the next request.
func countInterval(took time.Duration, answered bool) time.Duration {
	if answered {
		return max(minCountTime, countFactor*took)
	}
	return max(minCountTime, failureFactor*took)
}

var errNoFlows = errors.New("there is no connection to the switch, or no flow of this process in it")

// count returns what the switch has counted. It asks by the whole cookie, of which Open vSwitch has
// an index.
func (b *bridge) count(ctx context.Context) (*flowHits, error) {
	c := &b.hits
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, told := b.conn.Load(), b.told.Load()
	if conn == nil || told == nil || told.flows.Cookie == 0 {
		return nil, errNoFlows
	}
	begun, cookie := time.Now(), told.flows.Cookie
	if c.conn == conn && c.cookie == cookie && begun.Before(c.next) {
		return c.last, c.err
	}
	all, err := conn.FlowStats(ctx, openflow.FlowStatsRequest{Table: openflow.TableAll, Cookie: cookie, CookieMask: ^uint64(0)})
	var says openflow.Description
	if err == nil {
		says, err = conn.Description(ctx)
	}
	took := time.Since(begun)
	c.next, c.conn, c.cookie = begun.Add(countInterval(took, err == nil)), conn, cookie
	if c.last, c.err = nil, sayHang(err); err == nil {
		c.last = &flowHits{begun.Add(took), all, says}
	}
	return c.last, c.err
}

// guestHits are the counters of one guest.
type guestHits struct {
	flows              int
	queries, neighbors uint64
	// lastQuery is when the last query has come, zero if none has, or the switch does not tell.
	lastQuery time.Time
}

// byGuest sums the counters up by guest.
func (h *flowHits) byGuest(kind placement.Kind) map[placement.Key]*guestHits {
	all := map[placement.Key]*guestHits{}
	for i := range h.flows {
		f := &h.flows[i]
		role, key, counts := placement.Read(kind, f)
		if key == (placement.Key{}) {
			continue
		}
		g := all[key]
		if g == nil {
			g = &guestHits{}
			all[key] = g
		}
		g.flows++
		switch {
		case !counts:
		case role == placement.RoleNeighbor:
			g.neighbors += f.Packets
		case role == placement.RoleQuery:
			g.queries += f.Packets
			if at := h.at.Add(-f.Idle); f.Packets > 0 && f.Idle >= 0 && at.After(g.lastQuery) {
				g.lastQuery = at
			}
		}
	}
	return all
}
