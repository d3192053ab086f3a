// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"container/list"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// flow is one connection, from its SYN until gVisor has nothing left of it.
type flow struct {
	key   Key
	id    uint64
	way   atomic.Pointer[Peer]
	began time.Time
	// urgent has the bytes of the peer that are no part of its stream.
	urgent urgent

	// Under the stack's lock: when the last segment came, what Accept has made of the
	// flow, when that was closed, the counts that the flow is in, and its places
	// among the ended ones there.
	touched time.Time
	conn    *Conn
	endedAt time.Time
	in      counts
	ended   [len(counts{})]*list.Element
}

func (f *flow) peer() Peer { return *f.way.Load() }

// hasEnded reports whether this end has closed the connection; the stack's lock is held.
func (f *flow) hasEnded() bool { return !f.endedAt.IsZero() }

// Outcome is what became of a segment.
type Outcome uint8

// Outcomes of [Stack.Deliver].
const (
	// Taken: it is of a connection.
	Taken Outcome = iota
	// Begun: it begins a connection.
	Begun
	// Reset: it is of no connection, and the peer has been told so.
	Reset
	// Full: there is no room for a further connection of the owner or of his network,
	// and the peer has been told.
	Full
	// Later: there is no room, but connections come and go. The peer has been told
	// nothing, and tries again.
	Later
	// Ignored: it is of no connection, and a reset itself; or the stack is closed.
	Ignored
)

// Deliver takes a segment, a TCP header of the length that it says and the payload,
// whose checksum is right. Answers go by the peer of the last segment. It does not
// wait.
func (s *Stack) Deliver(key Key, peer Peer, segment []byte, now time.Time) Outcome {
	t := header.TCP(segment)
	begins := t.Flags()&(header.TCPFlagSyn|header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) == header.TCPFlagSyn
	if begins {
		s.replace(key)
	}
	f, outcome := s.find(key, peer, t.Flags(), begins, now)
	if outcome == Reset || outcome == Full {
		sendReset(peer, t)
	}
	if f == nil {
		return outcome
	}
	if t.Flags().Contains(header.TCPFlagUrg) {
		f.urgent.note(t)
	}
	s.deliver(f.id, segment)
	return outcome
}

// replace forgets the flow of a key whose connection is at its end: the peer begins
// another one with the same ports, which must not be taken for it.
func (s *Stack) replace(key Key) {
	s.mu.Lock()
	f := s.flows[key]
	had := f != nil && f.conn != nil
	s.mu.Unlock()
	if !had {
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
		ep.Abort() // nobody is told any more
	}
}

// find returns the flow of a segment, a new one where the segment begins one. Ended
// connections make room for that.
func (s *Stack) find(key Key, peer Peer, flags header.TCPFlags, begins bool, now time.Time) (f *flow, outcome Outcome) {
	var evicted []*flow
	defer func() { s.abort(evicted) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	f = s.flows[key]
	outcome = Taken
	switch {
	case s.closed:
		return nil, Ignored
	case f != nil:
	case flags.Contains(header.TCPFlagRst):
		return nil, Ignored
	case !begins:
		return nil, Reset
	default:
		in := s.countsOf(key)
		defer func() {
			s.dropEmpty(key)
			for _, f := range evicted {
				s.dropEmpty(f.key)
			}
		}()
		if full := in.full(); full != nil {
			if full.changes(now) {
				return nil, Later
			}
			return nil, Full
		}
		for in.tooMany() {
			f := in.oldestEnded()
			evicted = append(evicted, f)
			s.remove(f, now)
		}
		s.nextID++
		f = &flow{key: key, id: s.nextID, began: now, in: in}
		s.flows[key], s.byID[f.id] = f, f
		f.open(now)
		outcome = Begun
	}
	f.way.Store(&peer)
	f.touched = now
	return f, outcome
}

// remove takes a flow away from its key and its counts, which may be empty then; the
// lock is held. What gVisor has to say still gets to the peer, until abort or forget.
func (s *Stack) remove(f *flow, now time.Time) {
	if s.flows[f.key] == f {
		delete(s.flows, f.key)
		f.uncount(now)
	}
}

// abort ends what gVisor has of flows that were removed. The lock must not be held.
func (s *Stack) abort(flows []*flow) {
	for _, f := range flows {
		ep := s.endpoint(f)
		if ep != nil && tcp.EndpointState(ep.State()) != tcp.StateTimeWait {
			ep.Abort() // which tells the peer
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

// forget drops a flow, once; the lock is held.
func (s *Stack) forget(f *flow) {
	s.remove(f, time.Now())
	s.dropEmpty(f.key)
	delete(s.byID, f.id)
}

// flow returns the one with that id, or nil.
func (s *Stack) flow(id uint64) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// endpoint is what gVisor has of a flow, nil for nothing. The lock must not be held.
func (s *Stack) endpoint(f *flow) endpoint {
	ep, _ := s.gvisor.FindTransportEndpoint(ipv6.ProtocolNumber, tcp.ProtocolNumber, stack.TransportEndpointID{
		LocalAddress: own, LocalPort: port, RemoteAddress: address(f.id), RemotePort: f.key.Src.Port(),
	}, nic).(endpoint)
	if ep == s.listener {
		return nil // it matches all that nobody else does
	}
	return ep
}

// endpoint is what a flow needs of a tcpip.Endpoint.
type endpoint interface {
	State() uint32
	Abort()
}

// accepted makes a connection of what gVisor has accepted. It is nil if its flow is
// gone. One may have had a connection before, whose peer was quick to begin another.
func (s *Stack) accepted(ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	remote, err := ep.GetRemoteAddress()
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[idOf(remote.Addr)]
	if f == nil || s.flows[f.key] != f { // which is about to be aborted
		return nil
	}
	f.conn = newConn(s, f, ep, queue)
	if f.hasEnded() {
		f.open(time.Now())
	}
	return f.conn
}

// Sweep ends what has lasted too long: handshakes, and connections that were closed
// and whose peer does not answer. It is to be called several times a second.
func (s *Stack) Sweep(now time.Time) {
	type state struct {
		f              *flow
		accepted       bool
		touched, ended time.Time
	}
	s.mu.Lock()
	all := make([]state, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, state{f, f.conn != nil, f.touched, f.endedAt})
	}
	s.mu.Unlock()
	for _, is := range all {
		switch ep := s.endpoint(is.f); {
		case ep == nil:
			// A SYN that gVisor has not looked at yet has no endpoint either.
			if is.accepted || now.Sub(is.touched) >= settled {
				s.forgetIdle(is.f, is.touched)
			}
		case !is.accepted && now.Sub(is.f.began) >= halfOpen,
			!is.ended.IsZero() && now.Sub(is.ended) >= closing:
			ep.Abort() // and gone the next time
		}
	}
}

// forgetIdle forgets a flow unless a segment has come since: that may be a SYN, of
// which gVisor makes another endpoint.
func (s *Stack) forgetIdle(f *flow, touched time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.touched.Equal(touched) {
		s.forget(f)
	}
}

// Connections is how many there are, those that begin or end included.
func (s *Stack) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.all()
}
