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

// flow is one connection, from its SYN until gVisor has no state of it any more.
type flow struct {
	key Key
	id  uint64 // of the made-up address, from 1 on
	// created is when the flow began, or was handed over to gVisor. Stack.mu guards it and the fields below.
	created time.Time
	// lastPeer is the peer of the last segment.
	lastPeer atomic.Pointer[Peer]
	// urgent has the bytes of the peer that are no part of its stream.
	urgent urgent

	// Stack.mu guards all below.

	kind kind
	// light is valid while kind is isLight, handover while that is isHandedOver.
	light    light.Conn
	handover *handover
	// request is the argument of Request.Keep, nil for none and after conn got it.
	request any
	// deciding is set while the handler decides whether it takes a request of the light flow.
	deciding bool
	// shift is by how much the sequence numbers of ours that the peer knows are above gVisor's: 0
	// unless the flow was light. It does not change while kind is isWhole.
	shift uint32

	lastSegment time.Time // when it came
	conn        *Conn     // that of Accept, nil before
	endedAt     time.Time // when this end has closed it, zero before
	counts      counts    // those that the flow is in
	// links are the links in count.ended, if the flow has ended.
	links [len(counts{})]link
	// removed is set once its key has another flow, or none.
	removed bool
}

func (f *flow) peer() Peer { return *f.lastPeer.Load() }

// hasEnded reports whether this end has closed the connection. Stack.mu is held.
func (f *flow) hasEnded() bool { return !f.endedAt.IsZero() }

// Outcome is what became of a segment.
type Outcome uint8

// Outcomes of [Stack.Deliver].
const (
	// Delivered: it is of a connection, and has been dealt with.
	Delivered Outcome = iota
	// Passed: it is of a connection that gVisor has or gets, whose goroutines deal with it.
	Passed
	// Begun: it begins a connection.
	Begun
	// Reset: it is of no connection, and the peer was sent a reset.
	Reset
	// Full: there is no room for a further connection of the owner or of its network,
	// and the peer was sent a reset.
	Full
	// Dropped: there is no room, but there may be soon, as connections begin and end. The
	// peer was sent nothing, and will send its SYN again.
	Dropped
	// Ignored: it is of no connection, and a reset itself; or the stack is closed.
	Ignored
)

// Deliver delivers a segment: a TCP header of the length that it says, and the payload. The
// caller has verified the checksum. Segments to the other end go to the Peer of the last
// segment. It does not block.
//
// The owner may have most open connections from now on. Those that are open stay, if there are
// more. If there is no room for a further one, exceeded says whose limit that is.
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

// receive finds the flow of a segment, which may begin one, and takes the segment. It returns nil without a
// flow.
func (s *Stack) receive(key Key, most int, peer Peer, t header.TCP, begins bool, now time.Time) (f *flow, then effect, evicted []*flow, outcome Outcome, exceeded share.Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, outcome, exceeded = s.admit(s.flows[key], key, most, peer, t, begins, now, &evicted)
	if f != nil {
		then = s.take(f, t, outcome == Begun, now)
	}
	return f, then, evicted, outcome, exceeded
}

// withConn returns the flow of a key, if it has a connection, or nil.
func (s *Stack) withConn(key Key) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flows[key]; f != nil && f.conn != nil {
		return f
	}
	return nil
}

// removeClosed removes the flow of a key if its connection is in TIME-WAIT or closed: the peer begins
// another one with the same ports, which must not be mistaken for it.
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
		ep.Abort() // the flow is gone, so nothing is sent to the peer
	}
}

// admit returns the flow of a segment: f, the flow of its key, or a new flow if the segment begins one. If
// that needs memory, admit evicts the oldest ended connections. Stack.mu is held.
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
		now := peer // to be allocated here only
		f.lastPeer.Store(&now)
	}
	f.lastSegment = now
	return f, outcome, share.None
}

// remove removes a flow from its key and its counts, which may be empty then. Stack.mu is
// held. Segments of gVisor are still sent to the peer, until abort or forget.
func (s *Stack) remove(f *flow, now time.Time) {
	if !f.removed {
		f.removed = true
		delete(s.flows, f.key)
		f.uncount(now)
	}
}

// abort ends the endpoints of flows that were removed. Stack.mu must not be held.
func (s *Stack) abort(flows []*flow) {
	for _, f := range flows {
		if f.kind == isLight { // as it stays once it has ended
			send(f.peer(), f.light.Abort(), Peer.Send)
			continue
		}
		ep := s.endpoint(f)
		if ep != nil && tcp.EndpointState(ep.State()) != tcp.StateTimeWait {
			ep.Abort() // which sends a reset to the peer
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

// forget removes a flow for good. Stack.mu is held. It may be called more than once.
func (s *Stack) forget(f *flow) {
	s.remove(f, time.Now())
	s.dropEmpty(f.key)
	delete(s.byID, f.id)
	s.dropHandover(f)
}

// endpoint returns gVisor's endpoint of a flow, or nil. Stack.mu must not be held.
func (s *Stack) endpoint(f *flow) endpoint {
	ep, _ := s.gvisor.FindTransportEndpoint(ipv6.ProtocolNumber, tcp.ProtocolNumber, stack.TransportEndpointID{
		LocalAddress: localAddress, LocalPort: port, RemoteAddress: address(f.id), RemotePort: f.key.Src.Port(),
	}, nic).(endpoint)
	if ep == s.listener {
		return nil // gVisor returns it where there is no endpoint of the flow
	}
	return ep
}

// endpoint are the methods of a tcpip.Endpoint that a flow needs.
type endpoint interface {
	State() uint32
	Abort()
}

// accepted returns the connection of an endpoint that gVisor has accepted, nil if its flow
// is gone. The flow may have had a connection before, if its peer has begun another one
// at once.
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

// bind makes the connection of the flow with that id, nil if that is gone.
func (s *Stack) bind(id uint64, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[id]
	if f == nil || f.removed { // evicted, and about to be aborted
		return nil
	}
	f.conn = newConn(s, f, ep, queue)
	f.request = nil
	if f.hasEnded() {
		f.open(time.Now())
	}
	return f.conn
}

// Sweep ends handshakes and closed connections at their timeouts, and forgets the flows of ended connections.
// Call it several times a second.
func (s *Stack) Sweep(now time.Time) {
	all := s.states()
	s.sweepLight(now)
	for _, is := range all {
		late := !is.accepted && now.Sub(is.created) >= handshakeTimeout
		switch ep := s.endpoint(is.f); {
		case ep == nil && late:
			s.forgetLate(is.f)
		case ep == nil:
			// A SYN that gVisor has not looked at yet has no endpoint either.
			if is.accepted || now.Sub(is.lastSegment) >= synDelay {
				s.forgetIdle(is.f, is.lastSegment)
			}
		case late, !is.ended.IsZero() && now.Sub(is.ended) >= closeTimeout:
			ep.Abort() // the next Sweep forgets the flow
		}
	}
}

// state is the state of a flow at the time of Sweep.
type state struct {
	f                           *flow
	accepted                    bool
	created, lastSegment, ended time.Time
}

// states are the states of all flows of gVisor.
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

// forgetLate forgets a flow of which gVisor has made no connection in time, whatever its peer sends.
func (s *Stack) forgetLate(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.conn == nil {
		s.forget(f)
	}
}

// forgetIdle forgets a flow unless a segment has come since: that may be a SYN, of
// which gVisor makes another endpoint.
func (s *Stack) forgetIdle(f *flow, lastSegment time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.lastSegment.Equal(lastSegment) {
		s.forget(f)
	}
}

// Connections returns how many there are, half-open and ended ones included.
func (s *Stack) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.all()
}
