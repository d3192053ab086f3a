// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
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
	// started is set once the flows have been in place.
	started bool
	// complaint is what was last logged of the state of the flows.
	complaint string
	// refusal is what was last logged of the switch's errors; the reader's.
	refusal string
}

// newSession is for a connection whose handshake is done.
func newSession(b *bridge, conn *openflow.Conn, controllerID uint16, options *Options) (*session, error) {
	s := &session{
		bridge: b, tally: b.tally, conn: conn, controllerID: controllerID,
		lease:  newLease(options.Lease),
		keeper: newKeeper(conn),
		retry:  endpoint.Backoff{Min: stageRetry, Max: stageRetryMax},
	}
	var err error
	s.out, err = openflow.AppendActions(nil, conn.Version(), openflow.Output{Port: openflow.PortInPort})
	return s, err
}

// handler is what the reader of the connection calls.
func (s *session) handler() openflow.Handler {
	return openflow.Handler{
		PacketIn:    s.packetIn,
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
		guest, limit := guestKey{uint32(p.Metadata), p.Regs[placement.RegInPort]}, srv.options.ConcurrentPort
		if srv.options.Placement != placement.OVN {
			guest = guestKey{port: p.InPort}
			q.local = s.bridge.localPort(p.InPort)
		}
		if p.InPort == openflow.PortController {
			// A probe: guests that fill the limits must not end the lease.
			s.bridge.workers.serve(q)
			return
		}
		if reason := srv.admission.admit(q, guest, limit); reason != "" {
			s.turnAway(q, p, reason)
			return
		}
		// Who replaces a server waits for the queries that it has admitted, so
		// one that it admitted too late must not count on its chain.
		if srv == s.bridge.current.Load() {
			s.pending.Add(1)
			s.bridge.workers.serve(q)
			return
		}
		srv.admission.release(q)
	}
}

// turnAway answers a query that there is no room for.
func (s *session) turnAway(q *query, p *openflow.PacketIn, reason string) {
	q.punt = *p
	if q.udp.Decode(p.Data) != nil || !q.identify() || accept(q.udp.Payload) != acceptQuery {
		q.pass(dropped, reason)
		return
	}
	if q.server.options.Overload == OverloadDrop {
		s.tally.count(dropped, reason)
		return
	}
	q.replyError(dns.RcodeServerFailure, refused, reason)
}

// packetOut sends b.frame to the guest at inPort, with a VLAN tag pushed unless
// tag is 0.
func (s *session) packetOut(b *buffer, inPort uint32, tag uint16) error {
	actions, err := s.out, error(nil)
	if tag != 0 {
		actions, err = openflow.AppendActions(nil, s.conn.Version(),
			openflow.PushVLAN{}, openflow.SetVLAN{VID: tag}, openflow.Output{Port: openflow.PortInPort})
		if err != nil {
			return err
		}
	}
	b.message, err = openflow.AppendPacketOut(b.message[:0], s.conn.Version(), s.conn.NextXID(), inPort, actions, b.frame)
	if err != nil {
		return err
	}
	return s.conn.Write(b.message)
}

// switchError takes an error that answers no waiting request. A stale resume is
// among them: the pipeline has changed meanwhile, and the guest asks again.
func (s *session) switchError(e *openflow.SwitchError) {
	switchErrors.WithLabelValues(s.bridge.name, e.Name()).Inc()
	if text := e.Error(); text != s.refusal {
		s.refusal = text
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
		case <-changed:
		case <-retry.C:
		case now := <-beat.C:
			if err := s.beat(now); err != nil {
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
	lost := s.keeper.catchUp()
	if newer := s.keeper.superseded(); newer != s.superseded {
		s.superseded = newer
		if newer {
			log.Infof("Bridge %s: a process that was started later has taken over", s.bridge.name)
		} else {
			log.Infof("Bridge %s: the process that had taken over is gone, taking back", s.bridge.name)
		}
	}
	if s.superseded {
		s.bridge.ready.Store(false)
		return false, nil
	}
	if lost > 0 {
		log.Warningf("Bridge %s: %d flows were removed or changed by somebody else", s.bridge.name, lost)
	}

	plan, settled, err := s.plan(ctx, srv)
	switch {
	case errors.Is(err, errStageUnknown):
		s.complain(err.Error())
		s.bridge.ready.Store(false)
		return true, nil
	case err != nil:
		return false, err
	}
	if !settled && !s.started {
		// The private table may be another process's still, whose guests are not
		// known here yet.
		s.complain("the databases have not told all guests of this node")
		return false, nil
	}
	want := plan.Private
	if len(want) > 0 && (s.lease.sound || s.keeper.hasPunt()) {
		// A process that is stuck leaves its punt to expire.
		want = append(want, plan.Punt)
	}
	// A reload may bring a database that has not told everything yet.
	c, err := s.keeper.reconcile(ctx, append(want, plan.Entry...), !settled)
	if err != nil {
		return false, err
	}
	if c.any() {
		restored := min(lost, c.added)
		flowInstalls.WithLabelValues(s.bridge.name, "new").Add(float64(c.added - restored))
		flowInstalls.WithLabelValues(s.bridge.name, "lost").Add(float64(restored))
	}
	flowsGauge.WithLabelValues(s.bridge.name).Set(float64(len(s.keeper.have)))
	if !s.started {
		s.started = true
		s.bridge.placed.Add(1)
		s.complaint = ""
		log.Infof("Bridge %s: flows are in place, %s", s.bridge.name, s.where(srv))
	}
	s.bridge.ready.Store(len(want) == 0 || s.keeper.hasPunt())
	return false, nil
}

// where tells the place of the entry flows.
func (s *session) where(srv *server) string {
	switch {
	case srv.options.Placement == placement.OVN && s.stage.table == 0:
		return "none so far, as this chassis has no guest"
	case srv.options.Placement == placement.OVN:
		return fmt.Sprintf("OVN's DNS stage is table %d", s.stage.table)
	}
	return fmt.Sprintf("in table %d at priority %d", srv.options.Table, srv.options.Priority)
}

// complain logs what keeps the flows from being placed, once.
func (s *session) complain(text string) {
	if s.complaint != text {
		s.complaint = text
		log.Infof("Bridge %s: waiting: %s", s.bridge.name, text)
	}
}

// plan is the flows that should stand, and whether every guest of this node is
// known.
func (s *session) plan(ctx context.Context, srv *server) (p placement.Plan, settled bool, err error) {
	service := srv.service(s.keeper.cookie(), s.controllerID)
	var snapshot *ovn.Snapshot
	if srv.source != nil {
		snapshot = srv.source.Snapshot()
		settled = snapshot.Settled
	}
	if srv.options.Placement == placement.OVN {
		table, err := s.confirmStage(ctx, snapshot)
		switch {
		case errors.Is(err, errStageUnknown) && settled && !hasGuest(snapshot):
			// A chassis without a guest has none of OVN's logical pipeline.
			return p, true, nil
		case err != nil:
			return p, false, err
		}
		if err := s.keeper.watch(ctx, table-1); err != nil {
			return p, false, err
		}
		return placement.PlanOVN(&service, table, guestsOf(snapshot)), settled, nil
	}

	table, priority := srv.options.Table, srv.options.Priority
	if err := s.keeper.watch(ctx, table); err != nil {
		return p, false, err
	}
	view := s.bridge.view.Load()
	if view == nil {
		view = &localView{}
	} else {
		settled = settled || snapshot == nil
	}
	return placement.PlanLocal(&service, table, priority, localGuests(srv.options.Placement, view, snapshot)), settled, nil
}

func hasGuest(snapshot *ovn.Snapshot) bool {
	for range snapshot.Guests() {
		return true
	}
	return false
}

// guestsOf are the guests that the snapshot has on this chassis.
func guestsOf(snapshot *ovn.Snapshot) iter.Seq[placement.Guest] {
	return func(yield func(placement.Guest) bool) {
		for p := range snapshot.Guests() {
			if !yield(placement.Guest{
				Datapath: p.DatapathKey, Port: p.Key, Owned: ownedBy(snapshot.Network(p.Network)),
			}) {
				return
			}
		}
	}
}

// metadataAddress is that of the metadata service of clouds, which a localport
// of ML2/OVN answers for without any row saying so.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// service is what the flows of this server should do.
func (srv *server) service(cookie uint64, controllerID uint16) placement.Service {
	return placement.Service{
		Addresses:    srv.options.Addresses,
		Neighbors:    srv.options.ARP,
		Pause:        srv.pause,
		ControllerID: controllerID,
		UserData:     userData,
		Lease:        uint16(srv.options.Lease / time.Second),
		Cookie:       cookie,
	}
}

// beat probes the way through the switch, if there is one and it is ours.
func (s *session) beat(now time.Time) error {
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
	return nil
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
	flowsGauge.WithLabelValues(s.bridge.name).Set(0)
	return s.conn.Barrier(ctx)
}
