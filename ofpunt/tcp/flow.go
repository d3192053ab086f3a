// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// flow is one connection, from its SYN until nothing is left of it.
type flow struct {
	key   Key
	id    uint64
	way   atomic.Pointer[Peer]
	began time.Time
	// first is the sequence number that the peer's handshake ends with: a reset with
	// it is believed while the connection is half open.
	first uint32

	// conn is set by Accept, and ended is when it was closed; under the stack's lock.
	conn  *Conn
	ended time.Time
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
	// Full: there is no room for a further connection, and the peer has been told.
	Full
	// Ignored: it is of no connection, and a reset itself; or the stack is closed.
	Ignored
)

// Deliver takes a segment, a TCP header of the length that it says and the payload,
// whose checksum is right. Answers go by the peer of the last segment. It does not
// wait.
func (s *Stack) Deliver(key Key, peer Peer, segment []byte, now time.Time) Outcome {
	t := header.TCP(segment)
	flags := t.Flags()
	f, outcome := s.find(key, peer, t, now)
	if f == nil {
		if outcome != Ignored {
			sendReset(peer, t)
		}
		return outcome
	}
	s.deliver(f.id, segment)
	if flags.Contains(header.TCPFlagRst) {
		s.abandoned(f, t.SequenceNumber())
	}
	return outcome
}

// find returns the flow of a segment, a new one where the segment begins one.
func (s *Stack) find(key Key, peer Peer, t header.TCP, now time.Time) (*flow, Outcome) {
	flags := t.Flags()
	begins := flags.Contains(header.TCPFlagSyn) && flags&(header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flows[key]
	if f != nil && begins && f.over(tcp.StateTimeWait) {
		// The peer uses the port again, sooner than the flow was swept out.
		s.forget(f)
		f = nil
	}
	outcome := Taken
	switch {
	case s.closed:
		return nil, Ignored
	case f != nil:
	case flags.Contains(header.TCPFlagRst):
		return nil, Ignored
	case !begins:
		return nil, Reset
	case len(s.flows) >= MaxConnections || s.owners[key.Owner] >= MaxOfOwner:
		return nil, Full
	default:
		s.nextID++
		f = &flow{key: key, id: s.nextID, began: now, first: t.SequenceNumber() + 1}
		s.flows[key], s.byID[f.id] = f, f
		s.owners[key.Owner]++
		outcome = Begun
	}
	f.way.Store(&peer)
	return f, outcome
}

// over tells whether the connection is at its end, or in the state that counts as one.
func (f *flow) over(counts tcp.EndpointState) bool {
	if f.conn == nil {
		return false
	}
	state := tcp.EndpointState(f.conn.endpoint.State())
	return state == tcp.StateClose || state == tcp.StateError || state == counts
}

// forget drops a flow; the lock is held.
func (s *Stack) forget(f *flow) {
	delete(s.flows, f.key)
	delete(s.byID, f.id)
	if s.owners[f.key.Owner]--; s.owners[f.key.Owner] == 0 {
		delete(s.owners, f.key.Owner)
	}
}

// abandoned takes note that the peer has reset the flow, with a segment that has that
// sequence number: where there is no connection yet, nobody else would.
func (s *Stack) abandoned(f *flow, sequence uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.conn == nil && sequence == f.first && s.byID[f.id] == f {
		s.forget(f)
	}
}

// flow returns the one with that id, or nil.
func (s *Stack) flow(id uint64) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// accepted makes a connection of what gVisor has accepted. It is nil if its flow is
// gone, or has had one.
func (s *Stack) accepted(ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	remote, err := ep.GetRemoteAddress()
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[idOf(remote.Addr)]
	if f == nil || f.conn != nil {
		return nil
	}
	f.conn = newConn(s, f, ep, queue)
	return f.conn
}

// Sweep ends what has lasted too long: handshakes, and connections that were closed
// and whose peer does not answer. It is to be called several times a second.
func (s *Stack) Sweep(now time.Time) {
	var stale, lost []*flow
	s.mu.Lock()
	for _, f := range s.flows {
		switch {
		case f.conn == nil:
			if now.Sub(f.began) >= halfOpen {
				s.forget(f)
				stale = append(stale, f)
			}
		case f.over(tcp.StateClose):
			s.forget(f)
		case !f.ended.IsZero() && now.Sub(f.ended) >= closing:
			lost = append(lost, f) // and over, next time
		}
	}
	s.mu.Unlock()
	for _, f := range stale {
		// gVisor would send its SYN-ACK again and again, for two minutes.
		s.deliver(f.id, reset(f.key.Src.Port(), port, f.first, 0, header.TCPFlagRst))
	}
	for _, f := range lost {
		f.conn.endpoint.Abort()
	}
}

// Connections is how many there are, those that begin or end included.
func (s *Stack) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flows)
}
