// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// ovs-vswitchd may be busy for a second.
const requestTimeout = 10 * time.Second

// session is one OpenFlow connection to a bridge. Only the goroutine of run uses its fields, but the connection's
// reader also uses those in handler.
type session struct {
	bridge    *Bridge
	tally     *metric.Tally
	conn      *openflow.Conn
	flows     *flows.Reconciler
	punts     *punt.Channel
	desired   desired
	reporter  reporter
	announcer announcer
	// nextOpen is when reportOpen may ask the switch.
	nextOpen time.Time
	since    time.Time
	// loggedErrors has names of the switch's errors. Only the reader uses it.
	loggedErrors map[string]bool
}

func newSession(b *Bridge, conn *openflow.Conn, controllerID uint16) *session {
	s := &session{
		bridge: b, tally: b.tally, conn: conn, since: time.Now(),
		desired:      newDesired(controllerID),
		announcer:    newAnnouncer(),
		reporter:     reporter{name: b.name, readiness: &b.readiness, successor: &b.successor, placed: &b.placed, rateDropped: b.rateDropped, metersFailure: &b.metersFailure},
		loggedErrors: map[string]bool{},
	}
	s.flows = flows.NewReconciler(conn, &b.flows, s.reporter.report)
	s.punts = b.punts.NewChannel(conn, s.flows.ProbeBack)
	return s
}

// handler's functions run on the reader's goroutine.
func (s *session) handler() openflow.Handler {
	return openflow.Handler{
		PacketIn:    s.punts.PacketIn,
		SlowTask:    punt.TaskLasts,
		Go:          s.bridge.punts.Go,
		FlowUpdate:  s.flows.FlowUpdate,
		SwitchError: s.switchError,
		PortStatus:  s.portStatus,
		Malformed:   func(error) { s.tally.PacketIn(metric.Dropped, metric.ReasonUndecodable) },
	}
}

// The switch reuses numbers: a packet may come from the next port before the local database has its owner.
func (s *session) portStatus(p openflow.PortStatus) {
	if p.Gone {
		s.bridge.ports.Deleted(p.Port.Number, p.Port.Name)
	}
}

// switchError counts errors that are no reply. A stale resume is one: the pipeline changed, and the guest retries.
func (s *session) switchError(e *openflow.SwitchError) {
	metric.SwitchErrors.WithLabelValues(s.bridge.name, e.Name()).Inc()
	if !s.loggedErrors[e.Name()] {
		s.loggedErrors[e.Name()] = true
		log.Warningf("Bridge %s: %v (counted from now on)", s.bridge.name, e)
	}
}

// errOptions ends a session whose connection options a reload changes.
var errOptions = errors.New("the connection's options have changed")

func (s *session) run(ctx context.Context, options *config.Bridge) error {
	defer s.flows.Stop()
	defer s.announcer.timer.Stop()
	every := Heartbeat(options.Lease)
	heartbeat, look := time.NewTicker(every), time.NewTicker(min(every, lookInterval))
	defer heartbeat.Stop()
	defer look.Stop()
	for {
		srv := s.bridge.current.Load()
		if !srv.Options.SameConnection(options) {
			return errOptions
		}
		if now := Heartbeat(srv.Options.Lease); now != every {
			every = now
			heartbeat.Reset(every)
			look.Reset(min(every, lookInterval))
		}
		var changed <-chan struct{}
		if srv.source != nil {
			changed = srv.source.Changed()
		}
		if err := s.confirm(ctx, srv); err != nil {
			return err
		}
		_, changedIDs := srv.Book(s.bridge.ports.View()).Version()
		if err := s.reconcile(ctx, srv); err != nil {
			return err
		}
		s.announce(time.Now(), srv)
		s.show(srv)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case w := <-s.bridge.withdraw:
			err := s.flows.Handle(ctx, flows.Withdraw{Keep: w.keep})
			s.bridge.zeroFlowMetrics()
			close(w.gone)
			if err != nil {
				return err
			}
			s.drain(ctx)
			return ctx.Err()
		case <-s.bridge.wake:
		case <-s.flows.Wake():
		case <-changed:
		case <-changedIDs:
		case <-s.announcer.timer.C:
		case <-look.C:
			srv := s.bridge.current.Load() // srv of above may be closed
			s.reportUnserved(srv)
			s.reportOpen(ctx, srv)
		case <-heartbeat.C:
			s.reportNobodyServed(s.bridge.current.Load())
			if err := s.flows.Handle(ctx, flows.Heartbeat{}); err != nil {
				return err
			}
			s.bridge.logRefusals(time.Now())
		}
	}
}

func (s *session) reconcile(ctx context.Context, srv *Server) error {
	if s.bridge.draining.Load() {
		return nil
	}
	s.reporter.options = &srv.Options
	before, view := s.desired.version, s.bridge.ports.View()
	want := s.desired.want(srv, view)
	if s.desired.version != before {
		s.tally.SetNetworks(s.desired.networks)
	}
	err := s.flows.Handle(ctx, flows.Desired{Want: want})
	if s.flows.Yielding() {
		s.bridge.zeroFlowMetrics()
	} else {
		metric.Retained.WithLabelValues(s.bridge.name).Set(float64(s.bridge.countRetained(srv)))
		metric.OpenDestinations.WithLabelValues(s.bridge.name).Set(float64(s.flows.Openings()))
	}
	if view != nil && !view.Absent() && srv.settled() {
		s.bridge.served.set(srv, len(s.desired.guests))
		s.reportAddressless(&srv.Options.Config)
		s.reportLeft()
		s.reportFunctions()
	}
	return err
}

// drain keeps the connection open after the withdrawal, so that queries in the chains get answers.
func (s *session) drain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.flows.Wake():
			s.flows.Discard()
		}
	}
}
