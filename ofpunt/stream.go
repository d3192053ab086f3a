// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// stream is the DNS messages of one TCP connection (RFC 7766). Each goes through the
// chain by itself, beside the others, and is answered as soon as that is done.
type stream struct {
	conn *tcp.Conn
	// places are taken by the queries without an answer.
	places chan struct{}

	mu sync.Mutex
	// ended is set once there will be no further query.
	ended bool
}

const (
	// maxOpen is how many queries of a connection are worked on; further ones wait with
	// the guest.
	maxOpen = 32
	// maxQuery, in bytes, is more than a query needs; who sends a longer one loses the
	// connection.
	maxQuery = 4096
)

var errLongQuery = errors.New("query over 4096 bytes")

// acceptStreams takes connections until the stack is closed.
func (b *bridge) acceptStreams() {
	for {
		conn, err := b.tcp.Accept()
		if err != nil {
			return
		}
		b.done.Go(func() { b.converse(&stream{conn: conn, places: make(chan struct{}, maxOpen)}) })
	}
}

// converse reads the queries of a connection until the guest has no more, says nothing
// for too long, or breaks the protocol.
func (b *bridge) converse(s *stream) {
	defer s.finish()
	defer func() {
		if r := recover(); r != nil {
			s.conn.Close() // whatever is still open
			b.tally.countStream(dropped, reasonPanic)
			log.Errorf("Recovered from a panic over a TCP connection of bridge %s: %v\n%s", b.name, r, debug.Stack())
		}
	}()
	patience := b.current.Load().dns.ReadTimeout
	for {
		message, err := s.read(patience, b.current.Load().dns.ReadTimeout)
		if err != nil {
			return
		}
		select {
		case s.places <- struct{}{}:
		case <-b.ctx.Done():
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
	n := binary.BigEndian.Uint16(length[:])
	if n > maxQuery {
		return nil, errLongQuery
	}
	message := make([]byte, n)
	_, err := io.ReadFull(s.conn, message)
	return message, err
}

// ask takes a message, which has a place, to the workers, if there is room.
func (b *bridge) ask(s *stream, message []byte) {
	p := s.conn.Peer().(*peer) // there are no others
	for {
		srv := b.current.Load()
		q := &query{
			server: srv, session: p.session, arrived: time.Now(), asking: p.guest,
			stream: s, payload: message, ends: p.ends, origin: p.origin, local: p.local,
		}
		q.punt.InPort = p.inPort
		if reason := srv.admission.admit(q, srv.options.ConcurrentPort); reason != "" {
			defer s.end()
			if accept(message) != acceptQuery {
				q.drop(reason)
				return
			}
			q.overloaded(reason)
			return
		}
		// See session.packetIn.
		if srv == b.current.Load() {
			p.session.pending.Add(1)
			b.workers.serve(q)
			return
		}
		srv.admission.release(q)
	}
}

// end takes note that a query has been dealt with.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	<-s.places
	if s.ended && len(s.places) == 0 {
		s.conn.Close()
	}
}

// finish closes the connection once all queries have been dealt with: who has asked
// all may say so, and still wait for the answers.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; len(s.places) == 0 {
		s.conn.Close()
	}
}

// send sends b.answer, and waits for room until then.
func (s *stream) send(b *buffer, until time.Time) error {
	b.frame = binary.BigEndian.AppendUint16(b.frame[:0], uint16(len(b.answer)))
	b.frame = append(b.frame, b.answer...)
	return s.conn.Send(b.frame, until)
}
