// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Switch is the connection to a bridge, an *openflow.Conn.
type Switch interface {
	MonitorFlows(ctx context.Context, id uint32, table uint8) error
	FlowStats(ctx context.Context, r openflow.FlowStatsRequest) ([]openflow.FlowStats, error)
	Barrier(ctx context.Context) error
	Apply(ctx context.Context, mods []openflow.FlowMod) error
	MaxMeter(ctx context.Context) (uint32, error)
	Meters(ctx context.Context) ([]openflow.MeterConfig, error)
	ModMeters(ctx context.Context, mods []openflow.MeterMod) error
	MeterStats(ctx context.Context) ([]openflow.MeterStats, error)

	Version() openflow.Version
	NextXID() uint32
	// Write queues a message. It returns openflow.ErrQueueFull, and queues nothing,
	// where too much waits already.
	Write(b []byte, when openflow.When, mayBeLost bool) error
}

// requestTimeout bounds what one event makes of requests to the switch. ovs-vswitchd may
// be busy for a second with other work.
const requestTimeout = 10 * time.Second

// Times between an event and the retry that a machine asks for.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// Reconciler runs a [machine] on a connection. One goroutine, its owner, calls Handle, Stop, Discard and
// Yielding. Any goroutine may call FlowUpdate and ProbeBack, which do not block.
type Reconciler struct {
	sw      Switch
	machine *machine // the owner's
	report  func(Report)

	// backoff and timer are the owner's. timer is for the next retry, nil if none is to come.
	backoff endpoint.Backoff
	timer   *time.Timer

	// token is the token of the outstanding probe, 0 for none. sent is when the last probe left; only the
	// owner uses it. returned is set once that probe has come back, until Handle takes it.
	token    atomic.Uint64
	sent     uint64
	returned atomic.Bool
	// due is set when the timer has fired, until Handle takes it.
	due atomic.Bool

	mu sync.Mutex
	// updates are those that the machine has not been given yet. mu guards them.
	updates []openflow.FlowUpdate

	// wake has capacity 1: see Wake.
	wake chan struct{}
}

// NewReconciler returns the reconciler of a new connection. Reports go to report, on the
// goroutine of the owner.
func NewReconciler(sw Switch, memory *Memory, report func(Report)) *Reconciler {
	return &Reconciler{
		sw: sw, report: report, machine: newMachine(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		backoff: endpoint.Backoff{Min: minRetry, Max: maxRetry}, wake: make(chan struct{}, 1),
	}
}

// Yielding reports whether another process owns the flows.
func (rec *Reconciler) Yielding() bool { return rec.machine.Yielding() }

// State is what an operator may ask about the flows of a bridge.
type State struct {
	// Cookie is the cookie of the flows of this process, 0 before it has any.
	Cookie uint64
	// Yielding is set while another process owns the flows.
	Yielding bool
	// Leased is when the lease flow was installed or renewed last, zero if it is not installed. Probed
	// is when a probe has come back last, zero for never. Overdue is set while one does not.
	Leased, Probed time.Time
	Overdue        bool
	// Waiting is set while something keeps the flows from being installed: then there are no probes.
	Waiting bool
}

// State returns the state. Only the owner calls it.
func (rec *Reconciler) State() State {
	m := rec.machine
	s := State{Yielding: m.Yielding(), Probed: m.probed, Overdue: m.lease.overdue, Waiting: m.status == waiting}
	if g := m.generation(); g != 0 {
		s.Cookie = cookieOf(g)
		if m.observed.hasLease(g) {
			s.Leased = m.leased
		}
	}
	return s
}

// FlowUpdate takes in an event of the flow monitors.
func (rec *Reconciler) FlowUpdate(u openflow.FlowUpdate) {
	rec.mu.Lock()
	rec.updates = append(rec.updates, u)
	rec.mu.Unlock()
	if u.Event != openflow.FlowOwn {
		rec.notify()
	}
}

// ProbeBack takes in a probe that has come back.
func (rec *Reconciler) ProbeBack(token uint64) {
	if token != 0 && rec.token.CompareAndSwap(token, 0) {
		rec.returned.Store(true)
		rec.notify()
	}
}

// Wake has a mark when there is something for Handle that the owner does not know of.
func (rec *Reconciler) Wake() <-chan struct{} { return rec.wake }

func (rec *Reconciler) notify() {
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// Discard drops the flow updates that have come, for an owner who calls Handle no more: they
// would pile up.
func (rec *Reconciler) Discard() { rec.takeUpdates() }

// Stop ends the wait for a retry.
func (rec *Reconciler) Stop() {
	if rec.timer != nil {
		rec.timer.Stop()
		rec.timer = nil
	}
}

// Handle gives the machine what has come since the last call, then the events, and carries
// out its commands. It returns when there is nothing left to do but to wait for another
// event. An error ends the connection.
func (rec *Reconciler) Handle(ctx context.Context, events ...Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if rec.returned.Swap(false) {
		events = append([]Event{probeBack{rec.sent}}, events...)
	}
	if rec.due.Swap(false) {
		rec.timer = nil
		events = append(events, retry{})
	}
	for {
		// Updates that came before the reply to a request come before that.
		if updates := rec.takeUpdates(); len(updates) > 0 {
			events = append([]Event{flowUpdates{updates}}, events...)
		}
		request, retry, err := rec.step(events)
		switch {
		case err != nil:
			return err
		case request != nil:
			events = []Event{rec.request(ctx, request)}
		default:
			rec.retry(retry)
			return nil
		}
	}
}

// step gives events to the machine and carries out the commands without a reply. It returns the next request,
// nil without one, and reports whether the machine wants a retry.
func (rec *Reconciler) step(events []Event) (r request, retry bool, err error) {
	for _, e := range events {
		for _, c := range rec.machine.step(time.Now(), e) {
			switch c := c.(type) {
			case request:
				r = c
			case retrySoon:
				retry = true
			case fail:
				return nil, false, c.Err
			case sendProbe:
				if err := rec.probe(c.Token); err != nil {
					return nil, false, fmt.Errorf("probing the switch: %w", err)
				}
			case renew:
				if err := rec.renew(&c.Lease); err != nil {
					rec.report(RenewFailed{err})
				} else {
					rec.report(Renewed{})
				}
			default:
				rec.report(c)
			}
		}
	}
	return r, retry, nil
}

// retry starts the timer of a retry, or stops it. Other events do not put off one that runs.
func (rec *Reconciler) retry(soon bool) {
	switch {
	case !soon:
		rec.Stop()
		rec.backoff.Reset()
	case rec.timer == nil:
		rec.timer = time.AfterFunc(rec.backoff.Next(), func() {
			rec.due.Store(true)
			rec.notify()
		})
	}
}

// takeUpdates returns the flow updates that have come since the last call.
func (rec *Reconciler) takeUpdates() []openflow.FlowUpdate {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	updates := rec.updates
	rec.updates = nil
	return updates
}

// request makes a request and returns the reply.
func (rec *Reconciler) request(ctx context.Context, r request) (d reply) {
	switch r := r.(type) {
	case monitor:
		d.Err = rec.sw.MonitorFlows(ctx, uint32(r.Table)+1, r.Table)
	case readFlows:
		d.Flows, d.Err = rec.sw.FlowStats(ctx, openflow.FlowStatsRequest{Table: r.Table, Cookie: r.Cookie, CookieMask: r.Mask})
	case barrier:
		d.Err = rec.sw.Barrier(ctx)
	case apply:
		d.Err = rec.sw.Apply(ctx, r.Mods)
	case readMeters:
		if d.MaxMeter, d.Err = rec.sw.MaxMeter(ctx); d.Err == nil && d.MaxMeter > 0 {
			d.Meters, d.Err = rec.sw.Meters(ctx)
		}
	case modMeters:
		d.Err = rec.sw.ModMeters(ctx, r.Mods)
	case readMeterStats:
		d.Stats, d.Err = rec.sw.MeterStats(ctx)
	}
	return d
}

// probe sends a probe frame through the private table. One that finds no room on the
// connection is a missed probe.
func (rec *Reconciler) probe(token uint64) error {
	rec.returned.Store(false)
	rec.sent = token
	rec.token.Store(token)
	actions := openflow.AppendActions(nil, rec.sw.Version(), openflow.Resubmit{Table: placement.PrivateTable})
	data := frame.AppendProbe(nil, token)
	msg, err := openflow.AppendPacketOut(nil, rec.sw.Version(), rec.sw.NextXID(), openflow.PortController, actions, data)
	if err != nil {
		return err
	}
	if err := rec.sw.Write(msg, openflow.Soon, false); !errors.Is(err, openflow.ErrQueueFull) {
		return err
	}
	return nil
}

// renew sends the renewal of the lease.
func (rec *Reconciler) renew(lease *openflow.FlowMod) error {
	msg, err := openflow.AppendFlowMod(nil, rec.sw.Version(), rec.sw.NextXID(), lease)
	if err != nil {
		return err
	}
	return rec.sw.Write(msg, openflow.Soon, false)
}
