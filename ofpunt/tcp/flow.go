// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/puntdns/puntdns/ofpunt/share"
	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// flow is a connection, from its SYN until gVisor has forgotten it.
type flow struct {
	key Key
	id  uint64 // of the made-up address, from 1
	// begin or handover; guarded by Stack.mu
	created time.Time
	// of the last segment
	lastPeer atomic.Pointer[Peer]
	urgent   urgent

	// Stack.mu guards all below.

	kind kind
	// light is valid if isLight, handover if isHandedOver.
	light    light.Conn
	handover *handover
	// of Request.Keep, nil for none and once conn has it
	request any
	// set during the handler
	deciding bool
	// shift is our sequence number at the peer minus gVisor's, constant if isWhole.
	shift uint32

	lastSegment time.Time
	conn        *Conn     // nil before Accept
	endedAt     time.Time // zero before this end closed
	counts      counts
	// in count.ended
	links [len(counts{})]link
	// has lost its key
	removed bool
}

func (f *flow) peer() Peer { return *f.lastPeer.Load() }

// Stack.mu is held.
func (f *flow) hasEnded() bool { return !f.endedAt.IsZero() }

// Outcome is the result of [Stack.Deliver].
type Outcome uint8

// Outcomes.
const (
	// Delivered: to a light connection.
	Delivered Outcome = iota
	// Passed: to gVisor's goroutines.
	Passed
	// Begun: the segment begins a connection.
	Begun
	// Reset: no connection; a reset was sent.
	Reset
	// Full: the owner or its network is at its limit; a reset was sent.
	Full
	// Dropped: at the limit, but a connection may end before the SYN is retransmitted.
	Dropped
	// Ignored: a reset of no connection, or the stack is closed.
	Ignored
)

// Deliver processes a segment with a whole TCP header and a verified checksum. It does not block. Replies go to the
// last segment's Peer. most is the owner's new limit of open connections; open ones stay. The share.Bound is the
// limit that refuses the connection.
func (s *Stack) Deliver(key Key, most int, peer Peer, segment []byte, now time.Time) (Outcome, share.Bound) {
	t := header.TCP(segment)
	begins := t.Flags()&(header.TCPFlagSyn|header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) == header.TCPFlagSyn
	if begins {
		s.removeClosed(key)
	}
	f, then, evicted, outcome, exceeded := s.receive(key, most, peer, t, begins, now)
	s.abort(evicted)
	if f == nil {
		if outcome == Reset || outcome == Full {
			sendReset(peer, t)
		}
		return outcome, exceeded
	}
	if then.send.Flags != 0 {
		send(peer, then.send, s.reply)
	}
	s.begin(f, then)
	passed := then.segment == isHeld
	switch then.segment {
	case toGVisor:
		s.deliver(f, t)
		passed = true
	case toHandler:
		if s.handler(Request{s, f, peer}, t.Payload()) {
			s.decided(f)
		} else {
			s.decline(f, t, now)
			passed = true
		}
	}
	if passed && outcome == Delivered {
		outcome = Passed
	}
	return outcome, share.None
}

// receive returns nil without a flow.
func (s *Stack) receive(key Key, most int, peer Peer, t header.TCP, begins bool, now time.Time) (f *flow, then effect, evicted []*flow, outcome Outcome, exceeded share.Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, outcome, exceeded = s.admit(s.flows[key], key, most, peer, t, begins, now, &evicted)
	if f != nil {
		then = s.take(f, t, outcome == Begun, now)
	}
	return f, then, evicted, outcome, exceeded
}

// withConn returns the key's flow if it has a Conn, or nil.
func (s *Stack) withConn(key Key) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flows[key]; f != nil && f.conn != nil {
		return f
	}
	return nil
}

// removeClosed removes a flow in TIME-WAIT or closed: the peer reuses its port.
func (s *Stack) removeClosed(key Key) {
	f := s.withConn(key)
	if f == nil {
		return
	}
	ep := s.endpoint(f)
	if ep != nil {
		switch tcp.EndpointState(ep.State()) {
		case tcp.StateTimeWait, tcp.StateClose, tcp.StateError:
		default:
			return
		}
	}
	s.mu.Lock()
	s.forget(f)
	s.mu.Unlock()
	if ep != nil {
		ep.Abort() // sends nothing, as the flow is gone
	}
}

// admit returns f or, if the segment begins one, a new flow, which may evict ended connections. Stack.mu is held.
func (s *Stack) admit(f *flow, key Key, most int, peer Peer, t header.TCP, begins bool, now time.Time, evicted *[]*flow) (_ *flow, outcome Outcome, exceeded share.Bound) {
	outcome = Delivered
	switch {
	case s.closed:
		return nil, Ignored, share.None
	case f != nil:
		f.counts[ofOwner].most = most
	case t.Flags().Contains(header.TCPFlagRst):
		return nil, Ignored, share.None
	case !begins:
		return nil, Reset, share.None
	default:
		in := s.countsOf(key)
		in[ofOwner].most = most
		if full, bound := in.full(); full != nil {
			s.dropEmpty(key)
			if full.changes(now) {
				return nil, Dropped, bound
			}
			return nil, Full, bound
		}
		for in.tooMany() {
			f := in.oldestEnded()
			*evicted = append(*evicted, f)
			s.remove(f, now)
		}
		s.nextID++
		f = &flow{key: key, id: s.nextID, created: now, counts: in}
		s.flows[key] = f
		f.open(now)
		for _, f := range *evicted {
			s.dropEmpty(f.key)
		}
		outcome = Begun
	}
	if last := f.lastPeer.Load(); last == nil || *last != peer {
		now := peer // allocated only here
		f.lastPeer.Store(&now)
	}
	f.lastSegment = now
	return f, outcome, share.None
}

// remove leaves the key and the counts. gVisor's segments reach the peer until abort or forget. Stack.mu is held.
func (s *Stack) remove(f *flow, now time.Time) {
	if !f.removed {
		f.removed = true
		delete(s.flows, f.key)
		f.uncount(now)
	}
}

// abort ends removed flows. Stack.mu must not be held.
func (s *Stack) abort(flows []*flow) {
	for _, f := range flows {
		if f.kind == isLight { // an ended light flow stays light
			send(f.peer(), f.light.Abort(), Peer.Send)
			continue
		}
		ep := s.endpoint(f)
		if ep != nil && tcp.EndpointState(ep.State()) != tcp.StateTimeWait {
			ep.Abort() // with a reset to the peer
			ep = nil
		}
		s.mu.Lock()
		delete(s.byID, f.id)
		s.mu.Unlock()
		if ep != nil {
			ep.Abort()
		}
	}
}

// forget is idempotent. Stack.mu is held.
func (s *Stack) forget(f *flow) {
	s.remove(f, time.Now())
	s.dropEmpty(f.key)
	delete(s.byID, f.id)
	s.dropHandover(f)
}

// endpoint returns gVisor's endpoint, or nil. Stack.mu must not be held.
func (s *Stack) endpoint(f *flow) endpoint {
	ep, _ := s.gvisor.FindTransportEndpoint(ipv6.ProtocolNumber, tcp.ProtocolNumber, stack.TransportEndpointID{
		LocalAddress: localAddress, LocalPort: port, RemoteAddress: address(f.id), RemotePort: f.key.Src.Port(),
	}, nic).(endpoint)
	if ep == s.listener {
		return nil // gVisor's result without an endpoint
	}
	return ep
}

type endpoint interface {
	State() uint32
	Abort()
}

// accepted returns nil if the flow is gone. The flow may have had another connection, if the peer has reused its
// port.
func (s *Stack) accepted(ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	remote, err := ep.GetRemoteAddress()
	if err != nil {
		return nil
	}
	c := s.bind(idOf(remote.Addr), ep, queue)
	if c != nil {
		s.endHandover(c.flow)
	}
	return c
}

// bind returns nil if the flow is gone.
func (s *Stack) bind(id uint64, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[id]
	if f == nil || f.removed { // evicted, before abort
		return nil
	}
	f.conn = newConn(s, f, ep, queue)
	f.request = nil
	if f.hasEnded() {
		f.open(time.Now())
	}
	return f.conn
}

// Sweep ends handshakes and closed connections at their timeouts, and forgets ended flows. Call it several times a
// second.
func (s *Stack) Sweep(now time.Time) {
	all := s.states()
	s.sweepLight(now)
	for _, is := range all {
		late := !is.accepted && now.Sub(is.created) >= handshakeTimeout
		switch ep := s.endpoint(is.f); {
		case ep == nil && late:
			s.forgetLate(is.f)
		case ep == nil:
			// gVisor may not have processed the SYN.
			if is.accepted || now.Sub(is.lastSegment) >= synDelay {
				s.forgetIdle(is.f, is.lastSegment)
			}
		case late, !is.ended.IsZero() && now.Sub(is.ended) >= closeTimeout:
			ep.Abort() // the next Sweep forgets the flow
		}
	}
}

type state struct {
	f                           *flow
	accepted                    bool
	created, lastSegment, ended time.Time
}

// of flows in gVisor
func (s *Stack) states() []state {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]state, 0, len(s.byID))
	for _, f := range s.flows {
		if f.kind != isLight {
			all = append(all, state{f, f.conn != nil, f.created, f.lastSegment, f.endedAt})
		}
	}
	return all
}

func (s *Stack) forgetLate(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.conn == nil {
		s.forget(f)
	}
}

// A later segment may be a SYN for another endpoint.
func (s *Stack) forgetIdle(f *flow, lastSegment time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.lastSegment.Equal(lastSegment) {
		s.forget(f)
	}
}

// Connections counts half-open and ended connections, too.
func (s *Stack) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.all()
}
