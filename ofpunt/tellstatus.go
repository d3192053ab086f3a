// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func init() {
	control.Process.AddStatus(bridges.tellStatus)
}

// countTimeout bounds how long an operator waits for the counters of a switch that is busy.
const countTimeout = 3 * time.Second

// all returns the bridges, sorted by their names.
func (r *registry) all() (all []*bridge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.m)) {
		all = append(all, r.m[name])
	}
	return all
}

// tellStatus is the control.StatusFunc of all bridges.
func (r *registry) tellStatus(ctx context.Context, to *api.Status) {
	for _, b := range r.all() {
		srv := b.current.Load()
		if srv == nil {
			continue
		}
		t := teller{bridge: b, srv: srv, session: b.told.Load(), view: b.ports.View(), now: time.Now(), reason: b.waiting(), stalled: b.stall.reason()}
		to.Bridges = append(to.Bridges, t.status(ctx))
		to.Problems = append(to.Problems, t.problems()...)
		to.Warnings = append(to.Warnings, srv.chains.Warnings()...)
	}
}

// teller tells of one bridge what is known at one time.
type teller struct {
	bridge  *bridge
	srv     *server
	session *sessionState // nil without a connection
	view    *ports.View   // nil before the local database was read
	now     time.Time
	// reason is why the bridge is not served, empty if it is. stalled is the reason of a stall,
	// empty without one.
	reason, stalled string
}

func (t *teller) status(ctx context.Context) api.Bridge {
	o := &t.srv.options
	counted, err := t.count(ctx)
	out := api.Bridge{
		Name: t.bridge.name, Serving: t.reason == "", Waiting: t.reason,
		Connection: t.connection(counted), LocalDatabase: t.localDatabase(), Placement: t.placement(),
		Addresses: o.ResolverWords(), Lease: t.lease(), Flows: t.flows(counted, err), Guests: t.guestCounts(),
		QueriesInFlight: t.bridge.punts.InFlight(), TCPConnections: int64(t.bridge.punts.Connections()),
	}
	if t.view != nil {
		out.Chassis = t.srv.chassis(t.view)
	}
	return out
}

func (t *teller) connection(counted *flowHits) api.Connection {
	c := api.Connection{Endpoint: t.srv.options.OpenFlow.String()}
	if err := t.bridge.failure.Load(); err != nil {
		c.Failure = control.FailureOf(*err)
	}
	conn := t.bridge.conn.Load()
	if conn == nil || t.session == nil {
		return c
	}
	c.Up, c.Since, c.Failure = true, &t.session.since, nil
	c.ControllerID = t.session.controllerID
	if counted != nil {
		c.Switch = counted.says.Hardware + " " + counted.says.Software
	}
	c.Version, c.DatapathID = conn.Version().String(), fmt.Sprintf("%016x", conn.DatapathID())
	return c
}

func (t *teller) localDatabase() api.LocalDatabase {
	d := api.LocalDatabase{
		Endpoint: t.srv.options.OVSDB.String(), Up: t.bridge.ports.DatabaseUp(),
		HasBridge: t.view != nil && !t.view.Absent(),
	}
	if err := t.bridge.localFailure.Load(); err != nil && !d.Up {
		d.Failure = control.FailureOf(*err)
	}
	return d
}

func (t *teller) placement() api.Placement {
	o := &t.srv.options
	p := api.Placement{Kind: string(o.Placement), Priority: o.Priority}
	if o.Placement != placement.OVN {
		p.Table = &o.Table
		return p
	}
	p.Priority = placement.EntryPriority
	if t.srv.source != nil {
		if table, _, ok := t.srv.source.Snapshot().DNSStage(); ok {
			p.LogicalTable = &table
		}
	}
	if t.session != nil && t.session.placed.Table > 0 {
		stage := t.session.placed.Table
		entry := stage - 1
		p.Table, p.StageTable = &entry, &stage
	}
	return p
}

func (t *teller) lease() api.Lease {
	lifetime := t.srv.options.Lease
	l := api.Lease{Seconds: lifetime.Seconds(), BeatSeconds: leaseBeat(lifetime).Seconds()}
	if t.session == nil {
		return l
	}
	f := &t.session.flows
	l.Overdue = f.Overdue
	if !f.Probed.IsZero() {
		// The session may be waiting for a switch that hangs, and not have noticed it yet.
		ago := t.now.Sub(f.Probed).Seconds()
		l.LastBeatSecondsAgo, l.Overdue = &ago, l.Overdue || ago > 2*l.BeatSeconds
	}
	if !f.Leased.IsZero() && lifetime > 0 {
		left := max(0, f.Leased.Add(lifetime).Sub(t.now).Seconds())
		l.LeftSeconds = &left
	}
	return l
}

// flows tells of the flows. counted is what the switch has counted, err why it is not known.
func (t *teller) flows(counted *flowHits, err error) (f api.Flows) {
	if t.session == nil {
		return f
	}
	s := t.session
	f.OtherProcess = s.flows.Yielding
	if s.flows.Cookie != 0 {
		f.Cookie = fmt.Sprintf("%#x", s.flows.Cookie)
	}
	if !s.flows.Yielding {
		f.Expected = s.placed.Flows
	}
	if err != nil {
		f.Error = err.Error()
		return f
	}
	f.Counted = sumUp(counted, t.srv.options.Placement, t.now)
	return f
}

// count returns what the switch has counted, within countTimeout. It does not end with an operator
// who gives up: others are told the same.
func (t *teller) count(ctx context.Context) (*flowHits, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), countTimeout, errors.New("the switch has not told its counters in "+countTimeout.String()))
	defer cancel()
	return t.bridge.count(ctx)
}

func sumUp(h *flowHits, kind placement.Kind, now time.Time) *api.Counted {
	c := &api.Counted{SecondsAgo: max(0, now.Sub(h.at).Seconds()), Flows: len(h.flows)}
	for i := range h.flows {
		f := &h.flows[i]
		switch role, _, counts := placement.Read(kind, f); {
		case role == placement.RoleLease:
			c.PuntPackets += f.Packets
		case role == placement.RoleOnward:
			c.PassedPackets += f.Packets
		case counts:
			c.EntryPackets += f.Packets
		}
	}
	return c
}

func (t *teller) guestCounts() (c api.GuestCounts) {
	if t.session == nil || t.session.flows.Yielding {
		return c
	}
	c.Served = t.session.placed.Guests
	c.Kept = t.bridge.countKept(t.srv)
	c.WithoutAddress = t.session.list.WithoutResolver()
	c.Unserved = len(t.session.unserved)
	return c
}

// problems returns what is not well with the bridge. What follows from another problem is left out.
func (t *teller) problems() (all []api.Problem) {
	add := func(code, text string) {
		all = append(all, api.Problem{Code: code, About: t.bridge.name, Text: text})
	}
	if t.stalled != "" {
		add(api.CodeStalled, t.stalled)
	} else {
		all = t.connectionProblems()
	}
	if err := t.srv.conflict(); err != nil && t.reason != err.Error() {
		add(api.CodeBinding, err.Error())
	}
	if text := t.srv.bindingProblem(); text != "" && text != t.reason {
		add(api.CodeBinding, text)
	}
	return append(all, t.guestProblems()...)
}

// connectionProblems returns what is not well with the switch or the local database.
func (t *teller) connectionProblems() (all []api.Problem) {
	add := func(code, text string) {
		all = append(all, api.Problem{Code: code, About: t.bridge.name, Text: text})
	}
	switch {
	case t.session == nil:
		add(api.CodeSwitch, t.reason)
	case t.session.flows.Yielding:
		add(api.CodeOtherProcess, t.reason)
	case t.lease().Overdue:
		add(api.CodeLease, "a probe through the switch has not come back in time, so the punt is not renewed")
	}
	switch {
	case !t.bridge.ports.DatabaseUp():
		text := "it has not been read"
		if err := t.bridge.localFailure.Load(); err != nil {
			text = (*err).Error()
		}
		add(api.CodeLocalDatabase, text)
	case t.view != nil && t.view.Absent():
		add(api.CodeNoBridge, "the local Open_vSwitch database has no bridge of this name")
	case t.session != nil && t.reason != "" && len(all) == 0:
		add(api.CodeNotServed, t.reason)
	}
	return all
}

// guestProblems returns what is not well with guests.
func (t *teller) guestProblems() (all []api.Problem) {
	if t.session == nil || t.session.flows.Yielding {
		return nil
	}
	add := func(code, format string, args ...any) {
		all = append(all, api.Problem{Code: code, About: t.bridge.name, Text: fmt.Sprintf(format, args...)})
	}
	if n := len(t.session.unserved); n > 0 {
		port := slices.Min(slices.Collect(maps.Keys(t.session.unserved)))
		add(api.CodeUnserved, "interfaces that are not served: %d, such as that of logical port %q: %s", n, port, t.session.unserved[port])
	}
	if n := t.session.list.WithoutResolver(); n > 0 {
		network := slices.MinFunc(slices.Collect(maps.Keys(t.session.list.Without)), func(a, b guests.NetworkName) int { return strings.Compare(a.String(), b.String()) })
		add(api.CodeNoAddress, "guests without a resolver address: %d, some of them on switch %s", n, network)
	}
	if why := t.session.unmetered; why != "" && t.srv.options.Metered() {
		add(api.CodeNoMeters, "%s", why)
	}
	return all
}
