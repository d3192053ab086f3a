// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// firstQuery is the first query of a TCP connection, in one segment. Most connections have no other query, so they
// need no goroutine.
type firstQuery struct {
	tcpQuery
	intake  *Intake
	request tcp.Request
	record  *firstRecord
}

// firstRecord is the state of a connection before its handover. It does not retain the query, whose memory counts
// only until the answer.
type firstRecord struct {
	// mu guards what follows.
	mu sync.Mutex
	// nil before the handover
	connection *connection
	// as connection.promised
	promised int
	// zero before the query's end
	dealtWith time.Time
}

// takeFirst is the handler of tcp.Stack.Handle, for a payload of exactly one query. A connection takes partial,
// several and long queries, and all if MaxTCPQueries is 0 or 1.
func (in *Intake) takeFirst(request tcp.Request, payload []byte) bool {
	s := in.server.Load()
	query, ok := onlyMessage(payload)
	if !ok || s.MaxTCPQueries == 0 || s.MaxTCPQueries == 1 {
		return false
	}
	query = bytes.Clone(query)
	from := &request.Peer().(*peer).sender // the only implementation
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

// onlyMessage returns a payload's only message, of at most longQuery bytes, without its length (RFC 1035, section
// 4.2.2).
func onlyMessage(payload []byte) (message []byte, ok bool) {
	if len(payload) < 2 || int(binary.BigEndian.Uint16(payload)) != len(payload)-2 || len(payload)-2 > longQuery {
		return nil, false
	}
	return payload[2:], true
}

func (f *firstQuery) Run(turn uint64) {
	x := &f.exchange
	x.turn.Store(turn)
	f.validate()
	if x.ready.Load() && !x.runsOnReader() {
		x.turn.Store(0)
		x.from.channel.dispatch((*validated)(f))
		return
	}
	f.ask()
}

type validated firstQuery

func (v *validated) run() { (*firstQuery)(v).ask() }

func (f *firstQuery) run() {
	f.validate()
	f.ask()
}

func (f *firstQuery) validate() {
	x := &f.exchange
	defer func() { x.panicked(recover()) }()
	x.validate()
}

func (f *firstQuery) ask() {
	defer f.exchange.end()
	if f.exchange.ready.Load() {
		f.exchange.ask()
	}
}

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

func (f *firstQuery) send(b *buffer, deadline time.Time) error {
	by := tcp.Peer.Send
	if f.exchange.onReader() {
		by = sendLater
	}
	return f.request.Send(b.prefixed(), deadline, by)
}

func (f *firstQuery) promise(idle time.Duration) int {
	if f.intake.bridge.Draining.Load() || f.request.Crowded() {
		idle = 0
	}
	units := unitsOf(idle)
	f.record.promise(units)
	return units
}

func (f *firstRecord) promise(units int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connection != nil {
		f.connection.promise(units)
	} else {
		f.promised = units
	}
}

func (f *firstQuery) atDeadline(answer func()) { f.answerBeside(&f.intake.done, answer, f.release) }

func (f *firstQuery) release() {
	if f.leave() {
		f.request.Done()
		f.record.end()
	}
}

func (f *firstRecord) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dealtWith = time.Now()
	if f.connection != nil {
		f.connection.end()
	}
}
