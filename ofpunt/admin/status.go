// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func (a *answers) showStatus(ctx context.Context, to *api.Status) {
	for _, b := range a.bridges.All() {
		state := b.State()
		if state == nil {
			continue
		}
		t := bridgeStatus{State: state, bridge: b, srv: state.Server, now: time.Now()}
		to.Bridges = append(to.Bridges, t.status(ctx))
		to.Problems = append(to.Problems, t.problems()...)
		state.Server.Chains().ReportUpstreams(to)
		to.Warnings = append(to.Warnings, t.limitWarning()...)
		if counted, err := b.Count(ctx); err == nil { // flows shows the error
			to.Warnings = append(to.Warnings, t.openWarning(counted.ClosedByACL)...)
		}
		if names := state.Server.Names(); names != nil {
			to.Warnings = append(to.Warnings, t.persistentWarning(names.PersistentACLs())...)
		}
	}
}

type bridgeStatus struct {
	*bridge.State
	bridge *bridge.Bridge
	srv    *bridge.Server
	now    time.Time
}

func (t *bridgeStatus) status(ctx context.Context) api.Bridge {
	o := &t.srv.Options
	counted, err := t.bridge.Count(ctx)
	out := api.Bridge{
		Name: t.Name, Serving: t.Waiting == "", Waiting: t.Waiting,
		Connection: t.connection(counted), LocalDatabase: t.localDatabase(), Placement: t.placement(),
		Addresses: o.ResolverWords(), Lease: t.lease(), Flows: t.flows(counted, err), Guests: t.guestCounts(), EgressBit: t.srv.ACLBit,
		QueriesInFlight: t.InFlight, TCPConnections: t.Connections,
	}
	if t.View != nil {
		out.Chassis = t.srv.Chassis(t.View)
	}
	return out
}

func (t *bridgeStatus) connection(counted *bridge.Counters) api.Connection {
	c := api.Connection{Endpoint: t.srv.Options.OpenFlow.String()}
	if t.Failure != nil {
		c.Failure = control.FailureOf(t.Failure)
	}
	if t.Session == nil {
		return c
	}
	c.Up, c.Since, c.Failure = true, &t.Session.Since, nil
	c.ControllerID = t.Session.ControllerID
	if counted != nil {
		c.Switch = counted.Switch.Hardware + " " + counted.Switch.Software
	}
	c.Version, c.DatapathID = t.Session.Version, fmt.Sprintf("%016x", t.Session.DatapathID)
	return c
}

func (t *bridgeStatus) localDatabase() api.LocalDatabase {
	d := api.LocalDatabase{
		Endpoint: t.srv.Options.OVSDB.String(), Up: t.LocalUp,
		HasBridge: t.View != nil && !t.View.Absent(),
	}
	if t.LocalFailure != nil && !d.Up {
		d.Failure = control.FailureOf(t.LocalFailure)
	}
	return d
}

func (t *bridgeStatus) placement() api.Placement {
	o := &t.srv.Options
	p := api.Placement{Kind: string(o.Placement), Priority: o.Priority}
	if o.Placement != placement.OVN {
		p.Table = &o.Table
		return p
	}
	p.Priority = placement.EntryPriority
	if t.srv.Names() != nil {
		if table, _, ok := t.srv.Names().Snapshot().DNSStage(); ok {
			p.LogicalTable = &table
		}
	}
	if t.Session != nil && t.Session.Placed.Table > 0 {
		stage := t.Session.Placed.Table
		entry := stage - 1
		p.Table, p.StageTable = &entry, &stage
	}
	return p
}

func (t *bridgeStatus) lease() api.Lease {
	lifetime := t.srv.Options.Lease
	l := api.Lease{Seconds: lifetime.Seconds(), HeartbeatSeconds: bridge.Heartbeat(lifetime).Seconds()}
	if t.Session == nil {
		return l
	}
	f := &t.Session.Flows
	l.Overdue = f.Overdue
	if !f.Probed.IsZero() {
		// The session may not know yet that its switch hangs.
		ago := t.now.Sub(f.Probed).Seconds()
		l.LastHeartbeatSecondsAgo, l.Overdue = &ago, l.Overdue || ago > 2*l.HeartbeatSeconds
	}
	l.Overdue = l.Overdue && !f.Waiting
	if !f.Leased.IsZero() && lifetime > 0 {
		left := max(0, f.Leased.Add(lifetime).Sub(t.now).Seconds())
		l.LeftSeconds = &left
	}
	return l
}

// err is why counted is nil.
func (t *bridgeStatus) flows(counted *bridge.Counters, err error) (f api.Flows) {
	if t.Session == nil {
		return f
	}
	s := t.Session
	f.OtherProcess = s.Flows.Yielding
	if s.Flows.Cookie != 0 {
		f.Cookie = fmt.Sprintf("%#x", s.Flows.Cookie)
	}
	if !s.Flows.Yielding {
		f.Expected = s.Placed.Flows
	}
	if err != nil {
		f.Error = err.Error()
		return f
	}
	f.Counted = counted.Sum(t.srv.Options.Placement, t.now)
	return f
}

func (t *bridgeStatus) guestCounts() (c api.GuestCounts) {
	if t.Session == nil || t.Session.Flows.Yielding {
		return c
	}
	c.Served = t.Session.Placed.Guests
	c.Retained = t.Retained
	c.WithoutAddress = t.Session.List.WithoutResolver()
	c.Unserved = len(t.Session.Unserved())
	return c
}

// problems leaves out effects of another problem.
func (t *bridgeStatus) problems() (all []api.Problem) {
	add := func(code, text string) {
		all = append(all, api.Problem{Code: code, About: t.Name, Text: text})
	}
	if t.Stalled != "" {
		add(api.CodeStalled, t.Stalled)
	} else {
		all = t.connectionProblems()
	}
	if text := t.srv.BindingProblem(); text != "" {
		add(api.CodeBinding, text)
	}
	return append(all, t.guestProblems()...)
}

func (t *bridgeStatus) connectionProblems() (all []api.Problem) {
	add := func(code, text string) {
		all = append(all, api.Problem{Code: code, About: t.Name, Text: text})
	}
	switch {
	case t.Session == nil:
		add(api.CodeSwitch, t.Waiting)
	case t.Session.Flows.Yielding:
		add(api.CodeOtherProcess, t.Waiting)
	case t.lease().Overdue:
		add(api.CodeLease, "a probe through the switch has not come back in time, so the punt is not renewed")
	}
	switch {
	case !t.LocalUp:
		text := "it has not been read"
		if t.LocalFailure != nil {
			text = t.LocalFailure.Error()
		}
		add(api.CodeLocalDatabase, text)
	case t.View != nil && t.View.Absent():
		add(api.CodeNoBridge, "the local Open_vSwitch database has no bridge of this name")
	case t.Session != nil && t.Waiting != "" && len(all) == 0 && t.Waiting != t.srv.BindingProblem():
		add(api.CodeNotServed, t.Waiting)
	}
	return all
}

func (t *bridgeStatus) guestProblems() (all []api.Problem) {
	if t.Session == nil || t.Session.Flows.Yielding {
		return nil
	}
	add := func(code, format string, args ...any) {
		all = append(all, api.Problem{Code: code, About: t.Name, Text: fmt.Sprintf(format, args...)})
	}
	if ports := t.Session.Unserved(); len(ports) > 0 {
		add(api.CodeUnserved, "interfaces that are not served: %d, such as that of logical port %q: %s", len(ports), ports[0], t.Session.NotHere[ports[0]])
	}
	if n := t.Session.List.WithoutResolver(); n > 0 {
		network := slices.MinFunc(slices.Collect(maps.Keys(t.Session.List.Without)), func(a, b guests.NetworkName) int { return strings.Compare(a.String(), b.String()) })
		add(api.CodeNoAddress, "guests without a resolver address: %d, some of them on switch %s", n, network)
	}
	if why := t.Session.MetersFailure; why != "" && t.srv.Options.Metered() {
		add(api.CodeNoMeters, "%s", why)
	}
	return all
}
