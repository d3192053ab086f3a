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

// requestTimeout bounds a request to the switch. ovs-vswitchd may be busy for a
// second with other work.
const requestTimeout = 10 * time.Second

// session is one OpenFlow connection to a bridge. Only the goroutine of run uses its fields, except for
// loggedErrors, which the reader of the connection uses, and punts, which both use.
type session struct {
	bridge *Bridge
	tally  *metric.Tally
	conn   *openflow.Conn
	// flows installs the flows of the bridge by this connection.
	flows *flows.Reconciler
	// punts takes the packet-ins.
	punts *punt.Channel
	// desired says which flows there should be; reporter logs and counts what comes of it.
	desired  desired
	reporter reporter
	// announcer announces the resolver addresses in the physical networks of external ports.
	announcer announcer
	// since is when the connection was opened.
	since time.Time
	// loggedErrors are the names of the switch's errors that were logged; the reader's.
	loggedErrors map[string]bool
}

// newSession returns the session of a connection whose handshake is done.
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

// handler is what the reader of the connection calls.
func (s *session) handler() openflow.Handler {
	return openflow.Handler{
		PacketIn:    s.punts.PacketIn,
		SlowTask:    punt.TaskLasts,
		FlowUpdate:  s.flows.FlowUpdate,
		SwitchError: s.switchError,
		PortStatus:  s.portStatus,
		Malformed:   func(error) { s.tally.PacketIn(metric.Dropped, metric.ReasonUndecodable) },
	}
}

// portStatus records that a port is gone, on the reader's goroutine. The switch gives numbers anew: a packet
// may come from a port before the local database has the port's new owner.
func (s *session) portStatus(p openflow.PortStatus) {
	if p.Gone {
		s.bridge.ports.Deleted(p.Port.Number, p.Port.Name)
	}
}

// switchError counts an error that is no reply to a request, on the reader's goroutine. A stale
// resume is one of them: the pipeline has changed meanwhile, and the guest asks again.
func (s *session) switchError(e *openflow.SwitchError) {
	metric.SwitchErrors.WithLabelValues(s.bridge.name, e.Name()).Inc()
	if !s.loggedErrors[e.Name()] {
		s.loggedErrors[e.Name()] = true
		log.Warningf("Bridge %s: %v (counted from now on)", s.bridge.name, e)
	}
}

// errOptions ends a session whose connection has other options in the new Corefile.
var errOptions = errors.New("the connection's options have changed")

// run keeps the flows in place until the connection or ctx ends, or the options change.
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
			err := s.flows.Handle(ctx, flows.Withdraw{KeepClosed: w.keepClosed})
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
			s.reportUnserved(s.bridge.current.Load()) // srv may have been closed meanwhile
		case <-heartbeat.C:
			s.reportNobodyServed(s.bridge.current.Load())
			if err := s.flows.Handle(ctx, flows.Heartbeat{}); err != nil {
				return err
			}
			s.bridge.logRefusals(time.Now())
		}
	}
}

// reconcile installs the flows that srv and its snapshot ask for now.
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
		metric.Kept.WithLabelValues(s.bridge.name).Set(float64(s.bridge.countKept(srv)))
	}
	if view != nil && !view.Absent() && srv.settled() {
		s.bridge.served.set(srv, len(s.desired.guests))
		s.reportAddressless(&srv.Options.Config)
		s.reportLeft()
		s.reportFunctions()
	}
	return err
}

// drain leaves the connection open after the flows are withdrawn, so that the queries in the
// chains get their answers.
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
