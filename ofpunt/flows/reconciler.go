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
	// Write returns openflow.ErrQueueFull without queuing.
	Write(b []byte, when openflow.When, mayBeLost bool) error
}

// requestTimeout bounds the requests of one event. ovs-vswitchd may be busy for a second.
const requestTimeout = 10 * time.Second

const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// Reconciler runs a [machine] on a connection. Any goroutine may call Open, Openings, FlowUpdate and ProbeBack; the
// last two do not block. One goroutine, the owner, calls the others. The connection's reader must not call Open,
// which waits for a reply.
type Reconciler struct {
	sw      Switch
	machine *machine // the owner's
	report  func(Report)

	// backoff and timer are the owner's. timer is nil without a pending retry.
	backoff endpoint.Backoff
	timer   *time.Timer

	// token is the outstanding probe's, 0 for none. sent, the owner's, is the last probe's. returned lasts from the
	// probe's return to Handle.
	token    atomic.Uint64
	sent     uint64
	returned atomic.Bool
	// due lasts from the timer to Handle.
	due atomic.Bool

	mu sync.Mutex
	// updates, guarded by mu, are not given to the machine yet.
	updates []openflow.FlowUpdate

	wake chan struct{}

	requests requests
}

// NewReconciler returns the reconciler of a new connection. The owner's goroutine calls report.
func NewReconciler(sw Switch, memory *Memory, report func(Report)) *Reconciler {
	return &Reconciler{
		sw: sw, report: report, machine: newMachine(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		backoff: endpoint.Backoff{Min: minRetry, Max: maxRetry}, wake: make(chan struct{}, 1), requests: newRequests(),
	}
}

// Yielding reports whether another process owns the flows.
func (rec *Reconciler) Yielding() bool { return rec.machine.Yielding() }

// State is a bridge's flows for operators.
type State struct {
	// Cookie is 0 before this process has flows.
	Cookie   uint64
	Yielding bool
	// Leased is the last installation or renewal of the lease flow, zero if not installed. Probed is the last return
	// of a probe, zero for never. Overdue is set while a probe is missing.
	Leased, Probed time.Time
	Overdue        bool
	// Pipeline is zero until known.
	Pipeline placement.Pipeline
	// Waiting is set while something prevents installation: then no probes are sent.
	Waiting bool
}

// State returns the state. Only the owner calls it.
func (rec *Reconciler) State() State {
	m := rec.machine
	s := State{Yielding: m.Yielding(), Probed: m.probed, Overdue: m.lease.overdue, Pipeline: m.plan.of.Pipeline, Waiting: m.status == waiting}
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

// ProbeBack takes in a returned probe.
func (rec *Reconciler) ProbeBack(token uint64) {
	if token != 0 && rec.token.CompareAndSwap(token, 0) {
		rec.returned.Store(true)
		rec.notify()
	}
}

// Wake signals the owner to call Handle.
func (rec *Reconciler) Wake() <-chan struct{} { return rec.wake }

func (rec *Reconciler) notify() {
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// Discard drops flow updates and ends calls of Open, for an owner that stops calling Handle.
func (rec *Reconciler) Discard() {
	rec.takeUpdates()
	rec.requests.close(errNotServed)
}

// Stop ends retries and calls of Open. No call of Handle may follow.
func (rec *Reconciler) Stop() {
	rec.stopTimer()
	rec.requests.close(errors.New("the connection to the switch has ended"))
}

func (rec *Reconciler) stopTimer() {
	if rec.timer != nil {
		rec.timer.Stop()
		rec.timer = nil
	}
}

// Handle passes everything new, and the events, to the machine and carries out its commands. An error ends the
// connection.
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
		if r := rec.requests.take(); len(r) > 0 {
			events = append(events, open{r})
		}
		// Updates that came before a reply must precede it.
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
			case opened:
				rec.requests.end(c)
			case standing:
				rec.requests.record(&c)
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

// Other events do not postpone a running timer.
func (rec *Reconciler) retry(soon bool) {
	switch {
	case !soon:
		rec.stopTimer()
		rec.backoff.Reset()
	case rec.timer == nil:
		rec.timer = time.AfterFunc(rec.backoff.Next(), func() {
			rec.due.Store(true)
			rec.notify()
		})
	}
}

func (rec *Reconciler) takeUpdates() []openflow.FlowUpdate {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	updates := rec.updates
	rec.updates = nil
	return updates
}

func (rec *Reconciler) request(ctx context.Context, r request) (d reply) {
	switch r := r.(type) {
	case monitor:
		d.Err = rec.sw.MonitorFlows(ctx, uint32(r.Table)+1, r.Table)
	case readFlows:
		of := openflow.FlowStatsRequest{Table: r.Table, Cookie: r.Cookie, CookieMask: r.Mask}
		if r.Guest != nil {
			of.Match = placement.MatchOpenings(*r.Guest)
		}
		d.Flows, d.Err = rec.sw.FlowStats(ctx, of)
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

// A full queue counts as a missed probe.
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

func (rec *Reconciler) renew(lease *openflow.FlowMod) error {
	msg, err := openflow.AppendFlowMod(nil, rec.sw.Version(), rec.sw.NextXID(), lease)
	if err != nil {
		return err
	}
	return rec.sw.Write(msg, openflow.Soon, false)
}
