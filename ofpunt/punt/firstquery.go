// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// firstQuery is the first query of a TCP connection, which has come in one segment, and the transport
// of its exchange. Most connections bring no other one. Then the query is all that there is of the
// connection: it has no goroutine, and the reader runs it, or a worker, as if it had come over UDP.
type firstQuery struct {
	tcpQuery
	intake  *Intake
	request tcp.Request
	// runByReader is set while the reader of the connection to the switch runs the query.
	runByReader atomic.Bool
	record      *firstRecord
}

// firstRecord is what a connection is to know of its first query. It stays as long as a connection that is
// not handed over, and refers to nothing of the query, whose memory is counted only until the answer.
type firstRecord struct {
	// mu guards what follows.
	mu sync.Mutex
	// connection is what the connection has become, nil before it was handed over.
	connection *connection
	// promised is the timeout promised to the guest, as in connection, as long as there is no connection.
	promised int
	// dealtWith is when the query was dealt with, zero before.
	dealtWith time.Time
}

// takeFirst is the handler of tcp.Stack.Handle. It takes a payload that is exactly one whole query. It leaves
// all else to a connection: a part of a query, more than one query, a long query, for which a connection
// reserves room, and a query after which the connection ends, since MaxTCPQueries is 1 or 0.
func (in *Intake) takeFirst(request tcp.Request, payload []byte) bool {
	s := in.server.Load()
	query, ok := onlyMessage(payload)
	if !ok || s.MaxTCPQueries == 0 || s.MaxTCPQueries == 1 {
		return false
	}
	query = bytes.Clone(query)
	from := &request.Peer().(*peer).sender // there are no others
	for {
		f := &firstQuery{intake: in, request: request, record: &firstRecord{promised: -1}}
		f.init()
		x := &f.exchange
		x.init(s, f, from)
		x.payload = query
		request.Keep(f.record)
		if reason := s.admission.admit(x, s.ConcurrentGuest); reason != "" {
			x.countLimit(reason)
			x.rejectMessage(reason)
			return true
		}
		// See Channel.query.
		now := in.server.Load()
		if s == now {
			from.channel.pending.Add(1)
			from.channel.start(f, x)
			return true
		}
		s.admission.release(x)
		s = now
	}
}

// onlyMessage returns the message in the payload of a segment behind its length (RFC 1035, section 4.2.2).
// It reports whether the payload is one message that is not long.
func onlyMessage(payload []byte) (message []byte, ok bool) {
	if len(payload) < 2 || int(binary.BigEndian.Uint16(payload)) != len(payload)-2 || len(payload)-2 > longQuery {
		return nil, false
	}
	return payload[2:], true
}

// Run implements openflow.Task: the reader runs f unless f has to wait.
func (f *firstQuery) Run() {
	f.runByReader.Store(true)
	x := &f.exchange
	f.validate()
	if x.ready.Load() && !x.isFound() {
		f.runByReader.Store(false)
		x.from.channel.dispatch((*validated)(f))
		return
	}
	f.ask()
}

// validated is a first query for which validate has been called.
type validated firstQuery

func (v *validated) run() { (*firstQuery)(v).ask() }

func (f *firstQuery) run() {
	f.validate()
	f.ask()
}

// validate does what needs no chain.
func (f *firstQuery) validate() {
	x := &f.exchange
	defer func() { x.panicked(recover()) }()
	x.validate()
}

// ask has the chain answer, if validate has found a query for it.
func (f *firstQuery) ask() {
	defer f.exchange.end()
	if f.exchange.ready.Load() {
		f.exchange.ask()
	}
}

// handOver has the connection that there is now know of the query.
func (f *firstRecord) handOver(to *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to.before, to.promised = 1, f.promised
	if f.dealtWith.IsZero() {
		to.open <- struct{}{}
		f.connection = to
	} else {
		to.active = f.dealtWith
	}
}

// send implements transport.
func (f *firstQuery) send(b *buffer, deadline time.Time) error {
	by := tcp.Peer.Send
	if f.runByReader.Load() {
		by = sendLater
	}
	return f.request.Send(b.prefixed(), deadline, by)
}

// promise implements transport.
func (f *firstQuery) promise(idle time.Duration) int {
	if f.intake.bridge.Draining.Load() || f.request.Crowded() {
		idle = 0
	}
	units := unitsOf(idle)
	f.record.promise(units)
	return units
}

// promise records the timeout that an answer promises to the guest.
func (f *firstRecord) promise(units int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connection != nil {
		f.connection.promise(units)
	} else {
		f.promised = units
	}
}

// atDeadline implements transport.
func (f *firstQuery) atDeadline(answer func()) { f.answerBeside(&f.intake.done, answer, f.release) }

// release ends the query after its last goroutine.
func (f *firstQuery) release() {
	if f.leave() {
		f.request.Done()
		f.record.end()
	}
}

// end records that the query has been dealt with.
func (f *firstRecord) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dealtWith = time.Now()
	if f.connection != nil {
		f.connection.end()
	}
}
