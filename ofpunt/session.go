// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
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
	tally  *tally
	conn   *openflow.Conn
	lease  *lease
	keeper *keeper
	meters *meters
	// out are the encoded actions of an answer without a tag.
	out []byte
	// controllerID is this connection's in the switch.
	controllerID uint16
	// pending counts the queries that came by this connection and are in a chain.
	pending atomic.Int64

	// retry spaces looks for a stage that the switch does not have yet.
	retry endpoint.Backoff
	// stage is where OVN's DNS stands, as far as the switch has confirmed it.
	stage      confirmedStage
	superseded bool
	// plan is the last that was made, and standing what of it the switch has.
	plan     *plan
	standing standing
	// started is set once the flows have been in place.
	started bool
	// complaint is what was last logged of the state of the flows.
	complaint string
	// refusals are the names of the switch's errors that were logged; the reader's.
	refusals map[string]bool
}

// newSession is for a connection whose handshake is done.
func newSession(b *bridge, conn *openflow.Conn, controllerID uint16, options *Options) (*session, error) {
	s := &session{
		bridge: b, tally: b.tally, conn: conn, controllerID: controllerID,
		lease:  newLease(options.Lease),
		keeper: newKeeper(conn),
		meters: newMeters(b.name, conn), refusals: map[string]bool{},
		retry: endpoint.Backoff{Min: stageRetry, Max: stageRetryMax},
	}
	var err error
	s.out, err = answerActions(conn, 0, 0)
	return s, err
}

// handler is what the reader of the connection calls.
func (s *session) handler() openflow.Handler {
	return openflow.Handler{
		PacketIn:    s.packetIn,
		TaskLasts:   taskLasts,
		FlowUpdate:  s.keeper.told,
		SwitchError: s.switchError,
		PortStatus:  s.bridge.portStatus,
		Malformed:   func(error) { s.tally.count(dropped, reasonUndecodable) },
	}
}

// packetIn takes a punt, on the reader's goroutine: it must not wait.
func (s *session) packetIn(p *openflow.PacketIn, msg []byte) {
	if !bytes.Equal(p.UserData, userData) {
		s.tally.count(dropped, reasonForeign)
		return
	}
	for {
		srv := s.bridge.current.Load()
		q := &query{server: srv, session: s, arrived: time.Now(), message: bytes.Clone(msg)}
		q.asking = guestKey{uint32(p.Metadata), p.Regs[placement.RegInPort]}
		if srv.options.Placement == placement.OVN {
			q.local = s.bridge.portAt(s.bridge.view.Load(), p.InPort)
		} else {
			q.local = s.bridge.localPort(p.InPort)
			q.asking = guestKey{networkOf(q.local), p.InPort}
		}
		if p.InPort == openflow.PortController {
			// A probe: guests that fill the limits must not end the lease.
			s.bridge.workers.serve(q)
			return
		}
		if reason := srv.admission.admit(q, srv.options.ConcurrentPort); reason != "" {
			s.turnAway(q, p, reason)
			return
		}
		// Who replaces a server waits for the queries that it has admitted, so
		// one that it admitted too late must not count on its chain.
		if srv == s.bridge.current.Load() {
			s.pending.Add(1)
			s.hand(q)
			return
		}
		srv.admission.release(q)
	}
}

// readerTime is how long the reader of the connection may do queries of one read by
// itself: the work of some hundred.
const readerTime = time.Millisecond

// hand gives q to a worker; or leaves it to the reader, where the chains do not wait
// and the reader has not been busy for long: to wake a worker is a sixth of the
// processor time of a query.
func (s *session) hand(q *query) {
	if q.arrived.Sub(s.conn.ReadAt()) < readerTime && q.server.atHand(q.arrived) {
		q.onReader.Store(true)
		s.conn.Then(readerTask{q})
		return
	}
	s.bridge.workers.serve(q)
}

// readerTask is a query that the reader begins. It ends it too, unless it turns out
// that others may have to be asked.
type readerTask struct{ *query }

// Run implements openflow.Task.
func (t readerTask) Run() {
	if t.begin() {
		t.run()
		return
	}
	t.onReader.Store(false)
	t.session.bridge.workers.serve(t.query)
}

// taskLasts takes note that a query has kept a reader.
func taskLasts(t openflow.Task) {
	if t, ok := t.(readerTask); ok {
		t.server.kept(time.Now())
	}
}

// turnAway answers a query that there is no room for.
func (s *session) turnAway(q *query, p *openflow.PacketIn, reason string) {
	defer func() { q.caught(recover()) }()
	q.punt = *p
	if frame.KindOf(p.Data) == frame.KindTCP {
		// It is for no chain. The queries that it brings are turned away by themselves.
		q.segment()
		return
	}
	if q.datagram(p.Data) != nil || !q.identify() || accept(q.payload) != acceptQuery {
		q.pass(dropped, reason)
		return
	}
	q.overloaded(reason)
}

// overloaded deals with a query over the limits.
func (q *query) overloaded(reason string) {
	if q.server.options.Overload == OverloadDrop {
		q.count(dropped, reason)
		return
	}
	q.replyError(dns.RcodeServerFailure, refused, reason)
}

// switchError takes an error that answers no waiting request. A stale resume is
// among them: the pipeline has changed meanwhile, and the guest asks again.
func (s *session) switchError(e *openflow.SwitchError) {
	switchErrors.WithLabelValues(s.bridge.name, e.Name()).Inc()
	if !s.refusals[e.Name()] {
		s.refusals[e.Name()] = true
		log.Warningf("Bridge %s: %v (counted from now on)", s.bridge.name, e)
	}
}

// errOptions ends a session whose connection the Corefile wants another way.
var errOptions = errors.New("the connection's options have changed")

// keep holds the flows in place until the connection, ctx or the options end it.
func (s *session) keep(ctx context.Context, options *Options) error {
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	err := s.keeper.learn(request, s.bridge.generation, time.Now())
	cancel()
	if err != nil {
		return err
	}
	s.bridge.generation = s.keeper.generation

	beat := time.NewTicker(s.lease.every)
	defer beat.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()

	for {
		srv := s.bridge.current.Load()
		if !srv.options.sameConnection(options) {
			return errOptions
		}
		if every := leaseBeat(srv.options.Lease); every != s.lease.every {
			s.lease.every = every
			beat.Reset(every)
		}
		var changed <-chan struct{}
		if srv.source != nil {
			changed = srv.source.Changed()
		}
		again, err := s.reconcile(ctx, srv)
		if err != nil {
			return err
		}
		if again {
			retry.Reset(s.retry.Next())
		} else {
			s.retry.Reset()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case gone := <-s.bridge.withdraw:
			err := s.withdraw(ctx)
			close(gone)
			if err != nil {
				return err
			}
			// Answers still go out while the chains drain.
			<-ctx.Done()
			return ctx.Err()
		case <-s.bridge.wake:
		case <-s.keeper.signal:
			// What one command of somebody else has done is told by the time that
			// the switch answers a request, and so it is taken in at once.
			if err := s.barrier(ctx); err != nil {
				return err
			}
		case <-changed:
		case <-retry.C:
		case now := <-beat.C:
			if err := s.beat(ctx, now); err != nil {
				return err
			}
		case <-s.lease.back:
			s.back(srv)
		}
	}
}

// reconcile brings the flows to what srv and its snapshot ask for. It reports
// whether to try again soon, since the switch is not as far as the snapshot.
func (s *session) reconcile(ctx context.Context, srv *server) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	if s.bridge.leaving.Load() {
		return false, nil
	}
	lapsed := s.keeper.lapsed
	lost, told := s.keeper.catchUp()
	if s.keeper.lapsed && !lapsed {
		log.Warningf("Bridge %s: the punt has expired, as it was not renewed in time: queries went their own way", s.bridge.name)
	}
	if newer := s.keeper.superseded(); newer != s.superseded {
		s.superseded = newer
		if newer {
			log.Infof("Bridge %s: a process that was started later has taken over", s.bridge.name)
		} else {
			log.Infof("Bridge %s: the process that had taken over is gone, taking back", s.bridge.name)
		}
	}
	if s.superseded {
		s.keeper.lapsed = false
		s.meters.leave()
		s.bridge.ready.Store(false)
		flowsGauge.WithLabelValues(s.bridge.name).Set(0)
		return false, nil
	}
	if lost > 0 {
		// A flow goes with its meter.
		s.meters.forget()
		log.Warningf("Bridge %s: %d flows were removed or changed by somebody else", s.bridge.name, lost)
	}

	if view := s.bridge.view.Load(); view != nil && view.absent() {
		s.complain("the local Open_vSwitch database has no bridge of this name")
		s.bridge.ready.Store(false)
		return false, nil
	}
	p, err := s.makePlan(ctx, srv)
	switch {
	case errors.Is(err, errStageUnknown):
		s.complain(err.Error())
		s.bridge.ready.Store(false)
		return true, nil
	case err != nil:
		return false, err
	}
	if !p.settled && !s.started {
		// The private table may be another process's still, whose guests are not
		// known here yet.
		s.complain("the databases have not told all guests of this node")
		return false, nil
	}
	// A process that is stuck leaves its punt to expire.
	punt := len(p.private) > 0 && (s.lease.sound || s.keeper.hasPunt())
	if now := (standing{p, punt}); told || now != s.standing {
		err := s.place(ctx, p, punt, lost)
		switch {
		case errors.Is(err, errMeters):
			s.complain(errMeters.Error())
			s.bridge.ready.Store(false)
			return true, nil
		case err != nil:
			return false, err
		}
		s.standing = now
	}
	s.bridge.ready.Store(len(p.private) == 0 || s.keeper.hasPunt())
	return false, nil
}

// standing is what a session has placed: while it is asked for the same, and
// nobody has touched it, there is nothing to do.
type standing struct {
	plan *plan
	punt bool
}

// place installs a plan, the punt among it or not. Meters come before the flows
// that name them and go after them.
func (s *session) place(ctx context.Context, p *plan, punt bool, lost int) error {
	if err := s.meters.ensure(ctx, p.rate, p.burst); err != nil {
		return err
	}
	want := p.private
	if punt {
		want = append(want[:len(want):len(want)], p.punt)
	}
	// A reload may bring a database that has not told everything yet.
	c, err := s.keeper.reconcile(ctx, append(want[:len(want):len(want)], p.entry...), !p.settled)
	if err != nil {
		return s.meters.blame(err, true)
	}
	if p.settled {
		if err := s.meters.trim(ctx); err != nil {
			return err
		}
	}
	if c.any() {
		restored := min(lost, c.added)
		flowInstalls.WithLabelValues(s.bridge.name, "new").Add(float64(c.added - restored))
		flowInstalls.WithLabelValues(s.bridge.name, "lost").Add(float64(restored))
	}
	flowsGauge.WithLabelValues(s.bridge.name).Set(float64(len(s.keeper.have)))
	if s.keeper.lapsed && s.keeper.hasPunt() {
		s.keeper.lapsed = false
		log.Infof("Bridge %s: the punt stands again", s.bridge.name)
	}
	switch {
	case !s.started:
		s.started = true
		s.bridge.placed.Add(1)
		log.Infof("Bridge %s: flows are in place, %s", s.bridge.name, s.where(p))
	case s.complaint != "":
		log.Infof("Bridge %s: flows are in place again, %s", s.bridge.name, s.where(p))
	}
	s.complaint = ""
	return nil
}

// where tells the place of the entry flows, and for how many guests they are.
func (s *session) where(p *plan) string {
	switch o := &p.server.options; {
	case o.Placement == placement.OVN && p.table == 0:
		return "none so far, as this chassis has no guest"
	case o.Placement == placement.OVN:
		return fmt.Sprintf("OVN's DNS stage is table %d, guests: %d", p.table, p.guests)
	default:
		return fmt.Sprintf("in table %d at priority %d, guests: %d", o.Table, o.Priority, p.guests)
	}
}

// complain logs what keeps the flows from being placed, once.
func (s *session) complain(text string) {
	if s.complaint != text {
		s.complaint = text
		log.Infof("Bridge %s: waiting: %s", s.bridge.name, text)
	}
}

func (s *session) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.conn.Barrier(ctx)
}

// beat probes the way through the switch, if there is one and it is ours, and looks
// at the meters.
func (s *session) beat(ctx context.Context, now time.Time) error {
	if len(s.keeper.have) == 0 || s.superseded {
		s.lease.forget()
		return nil
	}
	sound, err := s.lease.probe(s.conn, now)
	if err != nil {
		return fmt.Errorf("probing the switch: %w", err)
	}
	if !sound && s.lease.sound {
		log.Warningf("Bridge %s: a probe through the switch did not come back in %s, the punt is not renewed", s.bridge.name, s.lease.every)
	}
	s.lease.sound = sound
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.meters.count(ctx)
}

// back renews the punt, as the probe has come back.
func (s *session) back(srv *server) {
	probeDuration.WithLabelValues(s.bridge.name).Observe(time.Since(s.lease.sent).Seconds())
	if !s.lease.sound {
		log.Infof("Bridge %s: probes come back again", s.bridge.name)
		s.lease.sound = true
	}
	if srv.options.Lease == 0 || s.superseded || s.bridge.leaving.Load() || !s.keeper.hasPunt() {
		return
	}
	if err := renew(s.conn, s.keeper.have[puntKey].mod); err != nil {
		log.Warningf("Bridge %s: renewing the punt: %v", s.bridge.name, err)
	}
}

// withdraw takes our flows out of the switch and waits until it has done so. Those
// of a process that took over stay.
func (s *session) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.keeper.catchUp()
	for key, f := range s.keeper.have {
		if generationOf(f.cookie) > s.keeper.generation {
			delete(s.keeper.have, key)
		}
	}
	if _, err := s.keeper.reconcile(ctx, nil, false); err != nil {
		return err
	}
	if !s.superseded {
		s.meters.assign()
		if err := s.meters.trim(ctx); err != nil {
			return err
		}
	}
	flowsGauge.WithLabelValues(s.bridge.name).Set(0)
	return s.conn.Barrier(ctx)
}
