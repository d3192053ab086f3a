// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// stream is the DNS messages of one TCP connection (RFC 7766). Each goes through the
// chain by itself, beside the others, and is answered as soon as that is done.
type stream struct {
	conn *tcp.Conn

	mu sync.Mutex
	// open counts the queries without an answer; ended is set once there will be no
	// further one.
	open  int
	ended bool
}

// acceptStreams takes connections until the stack is closed.
func (b *bridge) acceptStreams() {
	for {
		conn, err := b.tcp.Accept()
		if err != nil {
			return
		}
		b.done.Go(func() { b.converse(&stream{conn: conn}) })
	}
}

// converse reads the queries of a connection until the guest has no more, says nothing
// for too long, or breaks the protocol.
func (b *bridge) converse(s *stream) {
	defer s.finish()
	patience := b.current.Load().dns.ReadTimeout
	for {
		message, err := s.read(patience, b.current.Load().dns.ReadTimeout)
		if err != nil {
			return
		}
		b.ask(s, message)
		patience = b.current.Load().dns.IdleTimeout
	}
}

// read reads a message: two bytes of length and as many as they say (RFC 1035, section
// 4.2.2). The first has to come within patience, all of it within whole after that.
func (s *stream) read(patience, whole time.Duration) ([]byte, error) {
	var length [2]byte
	_ = s.conn.SetReadDeadline(time.Now().Add(patience)) // has no errors
	if _, err := io.ReadFull(s.conn, length[:1]); err != nil {
		return nil, err
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(whole))
	if _, err := io.ReadFull(s.conn, length[1:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(s.conn, message)
	return message, err
}

// ask takes a message to the workers, if there is room.
func (b *bridge) ask(s *stream, message []byte) {
	p, ok := s.conn.Peer().(*peer)
	if !ok {
		return
	}
	for {
		srv := b.current.Load()
		q := &query{
			server: srv, session: p.session, arrived: time.Now(), asking: p.guest,
			stream: s, payload: message, ends: p.ends, origin: p.origin, local: p.local,
		}
		q.punt.InPort = p.inPort
		if reason := srv.admission.admit(q, srv.options.ConcurrentPort); reason != "" {
			q.overloaded(reason)
			return
		}
		// See session.packetIn.
		if srv == b.current.Load() {
			p.session.pending.Add(1)
			s.begin()
			b.workers.serve(q)
			return
		}
		srv.admission.release(q)
	}
}

func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

// end takes note that a query has been dealt with.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.ended && s.open == 0 {
		s.conn.Close()
	}
}

// finish closes the connection once all queries have been dealt with: who has asked
// all may say so, and still wait for the answers.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; s.open == 0 {
		s.conn.Close()
	}
}

// send sends b.answer.
func (s *stream) send(b *buffer) error {
	b.frame = binary.BigEndian.AppendUint16(b.frame[:0], uint16(len(b.answer)))
	b.frame = append(b.frame, b.answer...)
	return s.conn.Send(b.frame)
}
