// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// counter asks the switch for the counters of the flows of this process. It asks when an operator
// does, and no more often than countInterval says: on a node with thousands of guests the counters are
// some megabytes.
type counter struct {
	// semaphore has one mark while no request runs. The request that has taken the mark uses the fields
	// below.
	semaphore chan struct{}
	// last are the last counters, and err is why there are none: one of them is nil. They are of
	// that connection and of the flows with that cookie.
	last   *Counters
	err    error
	conn   *openflow.Conn
	cookie uint64
	// next is when the switch may be asked again.
	next time.Time
}

// Counters are what the switch has counted for the flows of this process. They are immutable.
type Counters struct {
	// At is when the switch has answered. Switch is its description of itself.
	At     time.Time
	Flows  []openflow.FlowStats
	Switch openflow.Description
	// PortConfig is the config of each port, by its number, where it is not 0.
	PortConfig map[uint32]uint32
	// DroppedARP is as placement.DroppedARP returns it. It is empty with another placement than OVN's.
	DroppedARP map[placement.Key]uint64
}

func newCounter() counter {
	c := counter{semaphore: make(chan struct{}, 1)}
	c.semaphore <- struct{}{}
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

// countTimeout bounds how long an operator waits for the counters of a switch that is busy.
const countTimeout = 3 * time.Second

// Count returns what the switch has counted, within countTimeout. It does not end with an operator who gives
// up: others get the same counters.
func (b *Bridge) Count(ctx context.Context) (*Counters, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), countTimeout, errors.New("the switch has not told its counters in "+countTimeout.String()))
	defer cancel()
	return b.count(ctx)
}

// count returns what the switch has counted. It asks by the whole cookie, of which Open vSwitch has
// an index.
func (b *Bridge) count(ctx context.Context) (*Counters, error) {
	c := &b.counter
	select {
	case <-c.semaphore:
		defer func() { c.semaphore <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, session := b.conn.Load(), b.state.Load()
	if conn == nil || session == nil || session.Flows.Cookie == 0 {
		return nil, errNoFlows
	}
	begun, cookie := time.Now(), session.Flows.Cookie
	if c.conn == conn && c.cookie == cookie && begun.Before(c.next) {
		return c.last, c.err
	}
	all, err := conn.FlowStats(ctx, openflow.FlowStatsRequest{Table: openflow.TableAll, Cookie: cookie, CookieMask: ^uint64(0)})
	var says openflow.Description
	if err == nil {
		says, err = conn.Description(ctx)
	}
	var arp []openflow.FlowStats
	if err == nil && session.Server.Options.Placement == placement.OVN {
		arp, err = conn.FlowStats(ctx, openflow.FlowStatsRequest{Table: placement.CheckARPTable})
	}
	var ports []openflow.Port
	if err == nil {
		ports, err = conn.PortDescs(ctx)
	}
	took := time.Since(begun)
	c.next, c.conn, c.cookie = begun.Add(countInterval(took, err == nil)), conn, cookie
	if c.last, c.err = nil, sayHang(err); err == nil {
		c.last = &Counters{At: begun.Add(took), Flows: all, Switch: says, PortConfig: portConfig(ports), DroppedARP: placement.DroppedARP(arp)}
	}
	return c.last, c.err
}

func portConfig(ports []openflow.Port) map[uint32]uint32 {
	all := map[uint32]uint32{}
	for i := range ports {
		if p := &ports[i]; p.Config != 0 {
			all[p.Number] = p.Config
		}
	}
	return all
}

// GuestCounters are the counters of one guest.
type GuestCounters struct {
	Flows              int
	Queries, Neighbors uint64
	// LastQuery is when the last query has come. It is zero if none has, or if the switch does not report it.
	LastQuery time.Time
}

// ByGuest sums the counters up by guest.
func (c *Counters) ByGuest(kind placement.Kind) map[placement.Key]*GuestCounters {
	all := map[placement.Key]*GuestCounters{}
	for i := range c.Flows {
		f := &c.Flows[i]
		role, key, counts := placement.Read(kind, f)
		if key == (placement.Key{}) {
			continue
		}
		g := all[key]
		if g == nil {
			g = &GuestCounters{}
			all[key] = g
		}
		g.Flows++
		switch {
		case !counts:
		case role == placement.RoleNeighbor:
			g.Neighbors += f.Packets
		case role == placement.RoleQuery:
			g.Queries += f.Packets
			if at := c.At.Add(-f.Idle); f.Packets > 0 && f.Idle >= 0 && at.After(g.LastQuery) {
				g.LastQuery = at
			}
		}
	}
	return all
}

// Sum sums the counters of all guests up.
func (c *Counters) Sum(kind placement.Kind, now time.Time) *api.Counted {
	out := &api.Counted{SecondsAgo: max(0, now.Sub(c.At).Seconds()), Flows: len(c.Flows)}
	for i := range c.Flows {
		f := &c.Flows[i]
		switch role, _, counts := placement.Read(kind, f); {
		case role == placement.RoleLease:
			out.PuntPackets += f.Packets
		case role == placement.RoleOnward:
			out.PassedPackets += f.Packets
		case counts:
			out.EntryPackets += f.Packets
		}
	}
	return out
}
