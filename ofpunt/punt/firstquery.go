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
	intake   *Intake
	request  tcp.Request
	exchange Exchange
	// users counts the goroutines that work on it, as in message.
	users atomic.Int32
	// runByReader is set while the reader of the connection to the switch runs the query.
	runByReader atomic.Bool
	fate        *firstFate
}

// firstFate is what a connection is to know of its first query. It stays as long as a connection that is
// not handed over, and refers to nothing of the query, whose memory is counted only until the answer.
type firstFate struct {
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
		f := &firstQuery{intake: in, request: request, fate: &firstFate{promised: -1}}
		f.users.Store(1)
		x := &f.exchange
		x.init(s, f, from)
		x.payload = query
		request.Keep(f.fate)
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
	f.judge()
	if x.ready.Load() && !x.isFound() {
		f.runByReader.Store(false)
		x.from.channel.leave((*judged)(f))
		return
	}
	f.ask()
}

// judged is a first query for which judge has been called.
type judged firstQuery

func (j *judged) run() { (*firstQuery)(j).ask() }

func (f *firstQuery) run() {
	f.judge()
	f.ask()
}

// judge does what needs no chain.
func (f *firstQuery) judge() {
	x := &f.exchange
	defer func() { x.panicked(recover()) }()
	x.judge()
}

// ask has the chain answer, if judge has found a query for it.
func (f *firstQuery) ask() {
	defer f.exchange.end()
	if f.exchange.ready.Load() {
		f.exchange.ask()
	}
}

// handOver has the connection that there is now know of the query.
func (f *firstFate) handOver(to *connection) {
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

func (f *firstQuery) overTCP() bool { return true }

func (f *firstQuery) resumable() bool { return false }

func (f *firstQuery) resume() error { return errNotResumable }

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
	f.fate.promise(units)
	return units
}

// promise records the timeout that an answer promises to the guest.
func (f *firstFate) promise(units int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connection != nil {
		f.connection.promise(units)
	} else {
		f.promised = units
	}
}

// atDeadline calls answer on another goroutine, as in message.
func (f *firstQuery) atDeadline(answer func()) {
	if acquire(&f.users) {
		f.intake.done.Go(func() {
			defer f.release()
			answer()
		})
	}
}

// release counts out a user. The last of them ends the query.
func (f *firstQuery) release() {
	if f.users.Add(-1) != 0 {
		return
	}
	f.request.Done()
	f.fate.end()
}

// end records that the query has been dealt with.
func (f *firstFate) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dealtWith = time.Now()
	if f.connection != nil {
		f.connection.end()
	}
}
