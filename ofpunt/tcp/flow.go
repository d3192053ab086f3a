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
)

// flow is one connection, from its SYN until gVisor has nothing left of it.
type flow struct {
	key   Key
	id    uint64
	way   atomic.Pointer[Peer]
	began time.Time

	// Under the stack's lock: when the last segment came, what Accept has made of the
	// flow, and when that was closed.
	touched time.Time
	conn    *Conn
	ended   time.Time
}

func (f *flow) peer() Peer { return *f.way.Load() }

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
	if outcome == Full && s.makeRoom(now) {
		f, outcome = s.find(key, peer, t.Flags(), begins, now)
	}
	if f == nil {
		if outcome != Ignored {
			sendReset(peer, t)
		}
		return outcome
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
	if ep := s.endpoint(f); ep != nil {
		switch tcp.EndpointState(ep.State()) {
		case tcp.StateTimeWait, tcp.StateClose, tcp.StateError:
		default:
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(f)
}

// find returns the flow of a segment, a new one where the segment begins one.
func (s *Stack) find(key Key, peer Peer, flags header.TCPFlags, begins bool, now time.Time) (*flow, Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flows[key]
	outcome := Taken
	switch {
	case s.closed:
		return nil, Ignored
	case f != nil:
	case flags.Contains(header.TCPFlagRst):
		return nil, Ignored
	case !begins:
		return nil, Reset
	// No network has more than it leaves free for the others.
	case s.owners[key.Owner] >= MaxOfOwner || s.networks[key.Network] >= MaxConnections-len(s.flows):
		return nil, Full
	default:
		s.nextID++
		f = &flow{key: key, id: s.nextID, began: now}
		s.flows[key], s.byID[f.id] = f, f
		s.owners[key.Owner]++
		s.networks[key.Network]++
		outcome = Begun
	}
	f.way.Store(&peer)
	f.touched = now
	return f, outcome
}

// forget drops a flow, once; the lock is held.
func (s *Stack) forget(f *flow) {
	if s.byID[f.id] != f {
		return
	}
	delete(s.flows, f.key)
	delete(s.byID, f.id)
	countDown(s.owners, f.key.Owner)
	countDown(s.networks, f.key.Network)
}

func countDown(m map[any]int, key any) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
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
	if f == nil {
		return nil
	}
	f.conn, f.ended = newConn(s, f, ep, queue), time.Time{}
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
		all = append(all, state{f, f.conn != nil, f.touched, f.ended})
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

// makeRoom forgets what has ended since the last sweep, and tells whether there was
// any: who begins one connection after the other has many of those. It looks for them
// once a millisecond at most, whatever floods.
func (s *Stack) makeRoom(now time.Time) bool {
	s.mu.Lock()
	if now.Sub(s.roomMade) < time.Millisecond {
		s.mu.Unlock()
		return false
	}
	s.roomMade = now
	ended := map[*flow]time.Time{}
	for _, f := range s.flows {
		if !f.ended.IsZero() {
			ended[f] = f.touched
		}
	}
	s.mu.Unlock()
	for f, touched := range ended {
		if s.endpoint(f) == nil {
			s.forgetIdle(f, touched)
		}
	}
	return len(ended) > 0
}

// Connections is how many there are, those that begin or end included.
func (s *Stack) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flows)
}
