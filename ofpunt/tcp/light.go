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

// kind is who has the connection's state.
type kind uint8

const (
	isWhole      kind = iota // gVisor
	isLight                  // flow.light
	isHandedOver             // gVisor, from the handover on
)

// Handle sets the handler before the first Deliver. Connections then begin light.
//
// The handler gets the payload of the first data segment, valid during the call. If it returns true, it calls
// Request.Done once; else gVisor takes over and Conn reads the payload. Segments during the call are dropped for
// retransmission. reply sends like Peer.Send. Deliver calls both, so they must not block.
func (s *Stack) Handle(handler func(r Request, payload []byte) bool, reply func(to Peer, segment []byte)) {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	s.handler, s.reply, s.random = handler, reply, rand.NewChaCha8(seed)
}

// Request is the first request of a light connection.
type Request struct {
	stack *Stack
	flow  *flow
	peer  Peer
}

// Peer returns the peer of the request's segment.
func (r Request) Peer() Peer { return r.peer }

// Crowded is as Conn.Crowded.
func (r Request) Crowded() bool { return r.stack.crowded(r.flow) }

// Keep sets the result of Conn.TakeRequest. The handler calls Keep.
func (r Request) Keep(v any) {
	r.stack.mu.Lock()
	defer r.stack.mu.Unlock()
	r.flow.request = v
}

// Send sends a copy of b as a whole. by, such as Peer.Send, sends data of one segment. The first call does not
// block. Further calls may wait for the handover, and then are Conn.Send.
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

// Without conn and over Send is done.
type way struct {
	then effect
	// conn sends the message. over is closed when there may be a conn.
	conn *Conn
	over <-chan struct{}
	err  error
}

// respond sends b or leaves b to the handover. It does not wait.
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
	case step.Send.Flags == 0:
		return way{err: net.ErrClosed}
	}
	return way{then: s.step(f, step, now)}
}

// Done ends the request. No Send may follow.
func (r Request) Done() { r.stack.do(r.flow, r.stack.dealtWith(r.flow, time.Now())) }

func (s *Stack) dealtWith(f *flow, now time.Time) effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kind != isLight || f.removed {
		return effect{}
	}
	return s.step(f, f.light.Done(now), now)
}

// effect is work without Stack.mu.
type effect struct {
	send light.Segment
	// for gVisor, nil for none
	syn     header.TCP
	segment destination
}

type destination uint8

const (
	toNobody destination = iota
	toGVisor
	isHeld // until gVisor takes it
	toHandler
)

// take takes a segment, which may begin the flow. Stack.mu is held.
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
		return effect{} // Untake could not undo it
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

func (s *Stack) decided(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.deciding = false
}

// decline hands over the flow.
func (s *Stack) decline(f *flow, t header.TCP, now time.Time) { s.do(f, s.untake(f, t, now)) }

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

// Stack.mu is held.
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

// Stack.mu is not held.
func (s *Stack) do(f *flow, then effect) {
	if then.send.Flags != 0 {
		send(f.peer(), then.send, Peer.Send)
	}
	s.begin(f, then)
}

func (s *Stack) begin(f *flow, then effect) {
	if then.syn != nil {
		s.deliver(f, then.syn)
	}
}

// one segment each
var segments = sync.Pool{New: func() any {
	b := make([]byte, 0, mtu)
	return &b
}}

// by is a function such as Peer.Send.
func send(to Peer, segment light.Segment, by func(to Peer, segment []byte)) {
	b := segments.Get().(*[]byte)
	*b = segment.Append((*b)[:0])
	by(to, *b)
	segments.Put(b)
}

// Stack.mu is held.
func (s *Stack) runAcks() {
	if !s.acksRun {
		s.acksRun = true
		s.acks.Reset(light.AckTime)
	}
}

// sendAcks restarts the timer while acknowledgements are owed.
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

func (s *Stack) sweepLight(now time.Time) {
	s.tickLight(now, func(*flow) bool { return true })
}

func (s *Stack) tickLight(now time.Time, match func(f *flow) bool) {
	for _, d := range s.dueLight(now, match) {
		s.do(d.f, d.then)
	}
}

type due struct {
	f    *flow
	then effect
}

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

// expire returns the due work. Stack.mu is held.
func (s *Stack) expire(f *flow, now time.Time) light.Step {
	switch {
	case !f.light.IsEstablished() && now.Sub(f.created) >= handshakeTimeout:
		return light.Step{Do: light.End}
	case f.hasEnded() && now.Sub(f.endedAt) >= closeTimeout:
		return light.Step{Send: f.light.Abort(), Do: light.End}
	}
	return f.light.Tick(now)
}

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
