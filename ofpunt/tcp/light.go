// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	crand "crypto/rand"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// kind is who has the state of a connection.
type kind uint8

const (
	isWhole      kind = iota // gVisor
	isLight                  // flow.light
	isHandedOver             // gVisor, which is about to begin with it
)

// Handle has connections begin light: one that brings one request, gets its response and is closed needs
// nothing of gVisor. It is to be called before the first segment is delivered.
//
// The handler gets the payload of the first segment with data, which is valid during the call. It reports
// whether it takes the request, and then calls Done of it, once. If it does not, the connection is
// handed over to gVisor, and the payload is read from its Conn. Segments of the connection that come
// before it has decided are dropped, and the peer sends them again. Reply sends a segment as
// Peer.Send does. Both are called by Deliver, and must not block.
func (s *Stack) Handle(handler func(r Request, payload []byte) bool, reply func(to Peer, segment []byte)) {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	s.handler, s.reply, s.random = handler, reply, rand.NewChaCha8(seed)
}

// Request is the first request of a connection that began light.
type Request struct {
	stack *Stack
	flow  *flow
	peer  Peer
}

// Peer returns the peer of the segment that has brought the request.
func (r Request) Peer() Peer { return r.peer }

// Crowded is as Conn.Crowded.
func (r Request) Crowded() bool { return r.stack.crowded(r.flow) }

// Keep has Conn.TakeRequest return v, if the connection is handed over. Until then v is kept as long as the
// connection exists. The handler calls Keep.
func (r Request) Keep(v any) {
	r.stack.mu.Lock()
	defer r.stack.mu.Unlock()
	r.flow.request = v
}

// Send sends b as a whole, of which it takes a copy. What leaves in one segment is sent by a
// function such as Peer.Send.
//
// The first call does not block. Further ones may: until the connection is handed over, if there
// is more than a send buffer has room for, and then as Conn.Send does, with its errors.
func (r Request) Send(b []byte, deadline time.Time, by func(to Peer, segment []byte)) error {
	s, f := r.stack, r.flow
	for {
		way := s.respond(f, b, time.Now())
		if way.then.send.Flags != 0 {
			send(f.peer(), way.then.send, by)
		}
		s.begin(f, way.then)
		switch {
		case way.conn != nil:
			return way.conn.Send(b, deadline)
		case way.over == nil:
			return way.err
		}
		if err := s.awaitHandover(f, way.over, deadline); err != nil {
			return err
		}
	}
}

// way is how the sending for a request continues. Without conn and over all is sent.
type way struct {
	then effect
	// conn is to send it, over is closed when there may be one, nil for none.
	conn *Conn
	over <-chan struct{}
	err  error
}

// respond sends b, or has the handover of the flow send it, without waiting.
func (s *Stack) respond(f *flow, b []byte, now time.Time) way {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || f.removed {
		return way{err: net.ErrClosed}
	}
	switch f.kind {
	case isWhole:
		return way{conn: f.conn}
	case isHandedOver:
		h := f.handover
		switch {
		case !h.failed && !h.hasRoom(len(b)):
			return way{over: h.done}
		case h.failed || !s.unsent.acquire(f.key, len(b)):
			h.failed = true
			return way{err: ErrSlow}
		}
		h.add(b)
		return way{}
	}
	step := f.light.Respond(slices.Clone(b), now)
	switch {
	case step.Do == light.HandOver && !s.unsent.acquire(f.key, len(b)):
		step = light.Step{Send: f.light.Abort(), Do: light.End}
		return way{then: s.step(f, step, now), err: ErrSlow}
	case step.Do == light.HandOver:
		then := s.step(f, step, now)
		f.handover.add(b)
		return way{then: then}
	case step.Send.Flags == 0: // both sides are closed
		return way{err: net.ErrClosed}
	}
	return way{then: s.step(f, step, now)}
}

// Done says that the request has been dealt with: nothing more is sent for it.
func (r Request) Done() { r.stack.do(r.flow, r.stack.dealtWith(r.flow, time.Now())) }

// dealtWith is the part of Done without sending.
func (s *Stack) dealtWith(f *flow, now time.Time) effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kind != isLight || f.removed {
		return effect{}
	}
	return s.step(f, f.light.Done(now), now)
}

// effect is the work for a flow that is done when Stack.mu is not held any more.
type effect struct {
	send light.Segment
	// syn is what gVisor is to begin with, nil if it is not.
	syn header.TCP
	// segment says what becomes of the segment that was delivered.
	segment destination
}

// destination is who gets a segment.
type destination uint8

const (
	toNobody destination = iota
	toGVisor
	isHeld // until gVisor takes it
	toHandler
)

// take takes a segment of a flow, which may begin that. Stack.mu is held.
func (s *Stack) take(f *flow, t header.TCP, begins bool, now time.Time) effect {
	if begins && s.handler != nil {
		f.kind = isLight
		c, step := light.Open(t, uint32(s.random.Uint64()), now)
		f.light = c
		return effect{send: step.Send}
	}
	if begins {
		s.byID[f.id] = f
	}
	switch f.kind {
	case isWhole:
		return effect{segment: toGVisor}
	case isHandedOver:
		f.handover.hold(t)
		return effect{segment: isHeld}
	}
	if f.deciding && t.Flags()&header.TCPFlagRst == 0 {
		return effect{} // it could not be taken back, if the request is not taken
	}
	step := f.light.Receive(t, now)
	then := s.step(f, step, now)
	switch {
	case step.Do == light.Request:
		f.light.Take(t, now)
		f.deciding = true
		s.runAcks()
		then.segment = toHandler
	case then.syn != nil:
		f.handover.hold(t)
		then.segment = isHeld
	case f.light.OwesAck():
		s.runAcks()
	}
	return then
}

// decided records that the handler has taken the request of a flow.
func (s *Stack) decided(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.deciding = false
}

// decline hands a flow over whose segment, of which Deliver has taken the payload for a request,
// the handler does not take.
func (s *Stack) decline(f *flow, t header.TCP, now time.Time) { s.do(f, s.untake(f, t, now)) }

// untake is decline without the hand over to gVisor.
func (s *Stack) untake(f *flow, t header.TCP, now time.Time) effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kind != isLight || f.removed {
		return effect{}
	}
	f.light.Untake(t)
	then := s.step(f, light.Step{Do: light.HandOver}, now)
	f.handover.hold(t)
	return then
}

// step does the work for a light flow that needs Stack.mu, which is held.
func (s *Stack) step(f *flow, step light.Step, now time.Time) effect {
	then := effect{send: step.Send}
	switch step.Do {
	case light.Close:
		f.end(now)
	case light.End:
		s.forget(f)
	case light.HandOver:
		s.handOver(f, now)
		then.syn = f.handover.syn()
	}
	return then
}

// do does the work of an effect. Stack.mu is not held.
func (s *Stack) do(f *flow, then effect) {
	if then.send.Flags != 0 {
		send(f.peer(), then.send, Peer.Send)
	}
	s.begin(f, then)
}

// begin has gVisor begin with a flow that is handed over.
func (s *Stack) begin(f *flow, then effect) {
	if then.syn != nil {
		s.deliver(f, then.syn)
	}
}

// segments have room for one each.
var segments = sync.Pool{New: func() any {
	b := make([]byte, 0, mtu)
	return &b
}}

// send sends a segment of a light flow by a function such as Peer.Send.
func send(to Peer, segment light.Segment, by func(to Peer, segment []byte)) {
	b := segments.Get().(*[]byte)
	*b = segment.Append((*b)[:0])
	by(to, *b)
	segments.Put(b)
}

// runAcks has sendAcks called soon. Stack.mu is held.
func (s *Stack) runAcks() {
	if !s.acksRun {
		s.acksRun = true
		s.acks.Reset(light.AckTime)
	}
}

// sendAcks sends the acknowledgements that are due, as long as any are owed.
func (s *Stack) sendAcks() {
	s.tickLight(time.Now(), func(f *flow) bool { return f.light.OwesAck() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acksRun = false
	for _, f := range s.flows {
		if f.kind == isLight && f.light.OwesAck() && !s.closed {
			s.runAcks()
			return
		}
	}
}

// sweepLight does the work that is due for light flows.
func (s *Stack) sweepLight(now time.Time) {
	s.tickLight(now, func(*flow) bool { return true })
}

// tickLight does the work that is due for the light flows that match.
func (s *Stack) tickLight(now time.Time, match func(f *flow) bool) {
	for _, d := range s.dueLight(now, match) {
		s.do(d.f, d.then)
	}
}

// due is the effect on a light flow of the work that was due for it.
type due struct {
	f    *flow
	then effect
}

// dueLight is the part of tickLight without sending and without gVisor.
func (s *Stack) dueLight(now time.Time, match func(f *flow) bool) (all []due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if f.kind != isLight || s.closed || !match(f) {
			continue
		}
		if then := s.step(f, s.expire(f, now), now); then.send.Flags != 0 || then.syn != nil {
			all = append(all, due{f, then})
		}
	}
	return all
}

// expire returns the work that is due for a light flow. Stack.mu is held.
func (s *Stack) expire(f *flow, now time.Time) light.Step {
	switch {
	case !f.light.IsEstablished() && now.Sub(f.created) >= handshakeTimeout:
		return light.Step{Do: light.End}
	case f.hasEnded() && now.Sub(f.endedAt) >= closeTimeout:
		return light.Step{Send: f.light.Abort(), Do: light.End}
	}
	return f.light.Tick(now)
}

// closeLight resets the light connections of a stack that is closed.
func (s *Stack) closeLight() {
	s.acks.Stop()
	s.mu.Lock()
	var all []*flow
	for _, f := range s.flows {
		if f.kind == isLight {
			all = append(all, f)
			s.forget(f)
		}
	}
	s.mu.Unlock()
	for _, f := range all {
		send(f.peer(), f.light.Abort(), Peer.Send)
	}
}
