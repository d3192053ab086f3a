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
	Write(b []byte) error
}

// requestTimeout bounds what one event makes of requests to the switch. ovs-vswitchd may
// be busy for a second with its own affairs.
const requestTimeout = 10 * time.Second

// Times between an event and the retry that a machine asks for.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// Holder runs a [machine] on a connection. One goroutine, the owner, calls Handle;
// FlowUpdate and probeBack may be called from any.
type Holder struct {
	sw      Switch
	machine *machine
	report  func(Report)

	backoff endpoint.Backoff
	timer   *time.Timer // for the next retry, nil if none is to come

	// token is that of the probe on its way, 0 for none, and sent that of the last one.
	// returned is set once it has come back, and due once a retry is.
	token         atomic.Uint64
	sent          uint64 // the owner's
	returned, due atomic.Bool

	mu      sync.Mutex
	updates []openflow.FlowUpdate // that the machine has not been told of

	wake chan struct{}
}

// NewHolder holds flows by a connection. Reports go to report, on the goroutine of the
// owner.
func NewHolder(sw Switch, memory *Memory, report func(Report)) *Holder {
	return &Holder{
		sw: sw, report: report, machine: newMachine(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
		backoff: endpoint.Backoff{Min: minRetry, Max: maxRetry}, wake: make(chan struct{}, 1),
	}
}

// Yielding reports whether another process owns the flows. Only the owner may call it.
func (h *Holder) Yielding() bool { return h.machine.Yielding() }

// FlowUpdate takes an event of the flow monitors. It does not block.
func (h *Holder) FlowUpdate(u openflow.FlowUpdate) {
	h.mu.Lock()
	h.updates = append(h.updates, u)
	h.mu.Unlock()
	if u.Event != openflow.FlowOwn {
		h.poke()
	}
}

// probeBack takes a probe that has come back. It does not block.
func (h *Holder) ProbeBack(token uint64) {
	if token != 0 && h.token.CompareAndSwap(token, 0) {
		h.returned.Store(true)
		h.poke()
	}
}

// Wake has a mark when there is something for Handle that the owner does not know of.
func (h *Holder) Wake() <-chan struct{} { return h.wake }

func (h *Holder) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Discard drops what the switch has told, for an owner who handles nothing any more.
func (h *Holder) Discard() { h.take() }

// Stop ends the wait for a retry.
func (h *Holder) Stop() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

// Handle has the machine take what has come meanwhile, then the events, and does what it
// decides. It returns when there is nothing left to do but to wait for another event. An
// error ends the connection.
func (h *Holder) Handle(ctx context.Context, events ...Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if h.returned.Swap(false) {
		events = append([]Event{probeBack{h.sent}}, events...)
	}
	if h.due.Swap(false) {
		h.timer = nil
		events = append(events, retry{})
	}
	for {
		// What was told before the reply to a request comes before that.
		if updates := h.take(); len(updates) > 0 {
			events = append([]Event{told{updates}}, events...)
		}
		asks, again, err := h.step(events)
		switch {
		case err != nil:
			return err
		case asks != nil:
			events = []Event{h.ask(ctx, asks)}
		default:
			h.retry(again)
			return nil
		}
	}
}

// step gives events to the machine and does what needs no reply. It returns the request
// that is to be made, nil if there is none, and reports whether a retry is wanted.
func (h *Holder) step(events []Event) (asks request, again bool, err error) {
	for _, e := range events {
		for _, c := range h.machine.step(time.Now(), e) {
			switch c := c.(type) {
			case request:
				asks = c
			case retrySoon:
				again = true
			case fail:
				return nil, false, c.Err
			case sendProbe:
				if err := h.probe(c.Token); err != nil {
					return nil, false, fmt.Errorf("probing the switch: %w", err)
				}
			case renew:
				if err := h.renew(&c.Punt); err != nil {
					h.report(RenewFailed{err})
				}
			case left:
			default:
				h.report(c)
			}
		}
	}
	return asks, again, nil
}

// retry has a retry follow after a while, or none. One that is to come already is not put
// off by other events.
func (h *Holder) retry(soon bool) {
	switch {
	case !soon:
		h.Stop()
		h.backoff.Reset()
	case h.timer == nil:
		h.timer = time.AfterFunc(h.backoff.Next(), func() {
			h.due.Store(true)
			h.poke()
		})
	}
}

// take returns what the switch has told since it was called before.
func (h *Holder) take() []openflow.FlowUpdate {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := h.updates
	h.updates = nil
	return told
}

// ask makes a request and returns the reply.
func (h *Holder) ask(ctx context.Context, r request) (d done) {
	switch r := r.(type) {
	case monitor:
		d.Err = h.sw.MonitorFlows(ctx, uint32(r.Table)+1, r.Table)
	case readFlows:
		d.Flows, d.Err = h.sw.FlowStats(ctx, openflow.FlowStatsRequest{Table: r.Table, Cookie: r.Cookie, CookieMask: r.Mask})
	case barrier:
		d.Err = h.sw.Barrier(ctx)
	case apply:
		d.Err = h.sw.Apply(ctx, r.Mods)
	case readMeters:
		if d.MaxMeter, d.Err = h.sw.MaxMeter(ctx); d.Err == nil && d.MaxMeter > 0 {
			d.Meters, d.Err = h.sw.Meters(ctx)
		}
	case modMeters:
		d.Err = h.sw.ModMeters(ctx, r.Mods)
	case readMeterStats:
		d.Stats, d.Err = h.sw.MeterStats(ctx)
	}
	return d
}

// probe sends a probe frame through the private table. One that finds no room on the
// connection is a missed probe.
func (h *Holder) probe(token uint64) error {
	h.returned.Store(false)
	h.sent = token
	h.token.Store(token)
	actions, err := openflow.AppendActions(nil, h.sw.Version(), openflow.Resubmit{Table: placement.PrivateTable})
	if err != nil {
		return err
	}
	data := frame.AppendProbe(nil, token)
	msg, err := openflow.AppendPacketOut(nil, h.sw.Version(), h.sw.NextXID(), openflow.PortController, actions, data)
	if err != nil {
		return err
	}
	if err := h.sw.Write(msg); !errors.Is(err, openflow.ErrQueueFull) {
		return err
	}
	return nil
}

func (h *Holder) renew(punt *openflow.FlowMod) error {
	msg, err := openflow.AppendFlowMod(nil, h.sw.Version(), h.sw.NextXID(), punt)
	if err != nil {
		return err
	}
	return h.sw.Write(msg)
}
