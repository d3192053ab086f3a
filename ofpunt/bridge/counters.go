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

// counter asks the switch for counters when an operator does, as rarely as countInterval says: with thousands of
// guests the reply has some megabytes.
type counter struct {
	// semaphore is empty during a request, which alone uses the fields below.
	semaphore chan struct{}
	// last or err is the last result, by conn, for the flows with cookie. The other is nil.
	last   *Counters
	err    error
	conn   *openflow.Conn
	cookie uint64
	next   time.Time
}

// Counters are the switch's counters of this process's flows. They are immutable.
type Counters struct {
	// At is when the switch answered.
	At     time.Time
	Flows  []openflow.FlowStats
	Switch openflow.Description
	// PortConfig has configs other than 0, by port number.
	PortConfig map[uint32]uint32
	// DroppedARP is placement.DroppedARP, empty without placement ovn.
	DroppedARP map[placement.Key]uint64
	// ClosedByACL is nil without *egress*.
	ClosedByACL placement.ClosedByACL
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

// countInterval returns the least time between the begins of requests. It is shorter after an error, which is
// repeated until the next request.
func countInterval(took time.Duration, answered bool) time.Duration {
	if answered {
		return max(minCountTime, countFactor*took)
	}
	return max(minCountTime, failureFactor*took)
}

var errNoFlows = errors.New("there is no connection to the switch, or no flow of this process in it")

const countTimeout = 3 * time.Second

// Count returns the switch's counters, within countTimeout. It ignores the end of ctx: others get the same counters.
func (b *Bridge) Count(ctx context.Context) (*Counters, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), countTimeout, errors.New("the switch has not told its counters in "+countTimeout.String()))
	defer cancel()
	return b.count(ctx)
}

// count asks by the whole cookie, which Open vSwitch indexes.
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
	var closed placement.ClosedByACL
	if err == nil {
		closed, err = closedByACL(ctx, conn, session.Server, session.Flows.Pipeline)
	}
	var ports []openflow.Port
	if err == nil {
		ports, err = conn.PortDescs(ctx)
	}
	took := time.Since(begun)
	c.next, c.conn, c.cookie = begun.Add(countInterval(took, err == nil)), conn, cookie
	if c.last, c.err = nil, sayHang(err); err == nil {
		c.last = &Counters{At: begun.Add(took), Flows: all, Switch: says, PortConfig: portConfig(ports), DroppedARP: placement.DroppedARP(arp), ClosedByACL: closed}
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

// GuestCounters are one guest's counters.
type GuestCounters struct {
	Flows              int
	Queries, Neighbors uint64
	// LastQuery is zero without a query, or if the switch does not report it.
	LastQuery time.Time
}

// ByGuest sums counters by guest.
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

// Sum sums all guests' counters.
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
