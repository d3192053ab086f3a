// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// userData marks our punts: that of a paused packet-in carries another rule's
// cookie, but its user data is always the punt's.
var userData = []byte("puntdns\x01")

// requestTimeout bounds a request to the switch. ovs-vswitchd may be busy for a
// second with its own affairs.
const requestTimeout = 10 * time.Second

// session is one OpenFlow connection to a bridge.
type session struct {
	bridge *bridge
	tally  *metric.Tally
	conn   *openflow.Conn
	// flows holds the flows of the bridge by this connection.
	flows *flows.Holder
	// punts takes the packet-ins.
	punts *punt.Channel
	// desired makes what should stand in the switch; reporter tells of what does.
	desired  desired
	reporter reporter
	// refusals are the names of the switch's errors that were logged; the reader's.
	refusals map[string]bool
}

// newSession is for a connection whose handshake is done.
func newSession(b *bridge, conn *openflow.Conn, controllerID uint16) (*session, error) {
	s := &session{
		bridge: b, tally: b.tally, conn: conn,
		desired:  desired{controllerID: controllerID},
		reporter: reporter{name: b.name, readiness: &b.readiness, placed: &b.placed},
		refusals: map[string]bool{},
	}
	s.flows = flows.NewHolder(conn, &b.flows, s.reporter.report)
	var err error
	s.punts, err = b.punts.NewChannel(conn, s.flows.ProbeBack)
	return s, err
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

// portStatus takes the coming and going of ports, on the reader's goroutine. Numbers are
// reused: a punt from one may come before the local database has told whose it is now.
func (s *session) portStatus(p openflow.PortStatus) {
	if p.Gone {
		s.bridge.ports.Deleted(p.Port.Number, p.Port.Name)
	}
}

// switchError takes an error that answers no waiting request. A stale resume is
// among them: the pipeline has changed meanwhile, and the guest asks again.
func (s *session) switchError(e *openflow.SwitchError) {
	metric.SwitchErrors.WithLabelValues(s.bridge.name, e.Name()).Inc()
	if !s.refusals[e.Name()] {
		s.refusals[e.Name()] = true
		log.Warningf("Bridge %s: %v (counted from now on)", s.bridge.name, e)
	}
}

// errOptions ends a session whose connection the Corefile wants another way.
var errOptions = errors.New("the connection's options have changed")

// keep holds the flows in place until the connection, ctx or the options end it.
func (s *session) keep(ctx context.Context, options *Options) error {
	defer s.flows.Stop()
	every := leaseBeat(options.Lease)
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		srv := s.bridge.current.Load()
		if !srv.options.sameConnection(options) {
			return errOptions
		}
		if now := leaseBeat(srv.options.Lease); now != every {
			every = now
			beat.Reset(every)
		}
		var changed <-chan struct{}
		if srv.source != nil {
			changed = srv.source.Changed()
		}
		if err := s.hold(ctx, srv); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case gone := <-s.bridge.withdraw:
			err := s.flows.Handle(ctx, flows.Leave{})
			s.bridge.showNothingPlaced()
			close(gone)
			if err != nil {
				return err
			}
			s.drain(ctx)
			return ctx.Err()
		case <-s.bridge.wake:
		case <-s.flows.Wake():
		case <-changed:
		case <-beat.C:
			s.lookForUnserved(srv)
			if err := s.flows.Handle(ctx, flows.Beat{}); err != nil {
				return err
			}
		}
	}
}

// hold has the flows stand that srv and its snapshot ask for now.
func (s *session) hold(ctx context.Context, srv *server) error {
	if s.bridge.leaving.Load() {
		return nil
	}
	s.reporter.options = &srv.options
	err := s.flows.Handle(ctx, flows.Desired{Want: s.desired.want(srv, s.bridge.ports.View())})
	if s.flows.Yielding() {
		s.bridge.showNothingPlaced()
	} else {
		metric.Kept.WithLabelValues(s.bridge.name).Set(float64(s.bridge.kept(srv)))
	}
	return err
}

// drain lets answers out after the flows are withdrawn, while the chains end.
func (s *session) drain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.flows.Wake():
			s.flows.Discard() // what the switch tells would pile up
		}
	}
}
