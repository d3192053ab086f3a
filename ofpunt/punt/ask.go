// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// TestQuery is a query that an operator asks as a guest would.
type TestQuery struct {
	// In is the packet-in that the switch would send, with the frame of a query over UDP.
	In openflow.PacketIn
	// Resumable is set if the query may be resumed, TCP if it is one over TCP.
	Resumable, TCP bool
	// Context is what the chains get beside the exchange.
	Context context.Context
	// Answered is called once a plugin has answered or resumed it, or the server has refused it,
	// on the goroutine that has.
	Answered func()
	// Looped, unless it is nil, is called when a guest asks the same question while this one is
	// in the chains, and that counts as a loop. It may be called on any goroutine.
	Looped func(by *origin.Origin)
}

// TestResult is what becomes of a TestQuery.
type TestResult struct {
	// Origin is the guest, and Identified is set if that is known. IsResolver is set if the
	// query is for a resolver address of the guest. No chain is asked unless both are.
	Origin                 origin.Origin
	Identified, IsResolver bool
	// Answer is what the guest gets, nil for none. It is resumed, if that is its outcome, to the
	// address that it is for.
	Answer  *dns.Msg
	Outcome origin.Outcome
	// Done is closed when the chain has returned. That is not so yet behind the deadline, when
	// the guest has its answer.
	Done <-chan struct{}
}

// Ask takes a query the way of one that the switch has punted, up to its answer. Nothing is sent to
// the switch or the guest, and nothing counted: neither the query, nor what the guest has in flight.
// While it is in the chains it is seen by IsRepeated and IsPassedOn, unless another one is that was
// asked by Ask: a loop that it begins has to end.
func (in *Intake) Ask(s *Server, q *TestQuery) TestResult {
	d := new(datagram)
	// The channel has no connection and no tally.
	d.init(&Channel{intake: &Intake{bridge: Bridge{Name: in.bridge.Name, Ports: in.bridge.Ports}}}, s, &q.In, placement.Nowhere)
	x, t := &d.exchange, &answerKeeper{question: q}
	x.init(s, t, &d.sender)
	done := make(chan struct{})
	v := TestResult{Done: done}
	var u frame.UDP
	if err := u.Decode(q.In.Data); err != nil {
		close(done)
		v.Outcome = origin.Outcome{Result: metric.Dropped, Reason: refusal(err)}
		return v
	}
	x.payload = u.Payload
	proto := uint8(placement.ProtoUDP)
	if q.TCP {
		proto = placement.ProtoTCP
	}
	d.setEnds(u.Ends, proto)
	if v.Identified = d.packet.identify(); v.Identified {
		v.Origin, v.IsResolver = d.origin, d.isToResolver()
	}
	d.forget()
	if !v.Identified || !v.IsResolver {
		close(done)
		return v
	}
	if q.Resumable {
		d.origin.Resumer = x
	}
	s.admission.explained.CompareAndSwap(nil, x)
	go func() {
		defer close(done)
		defer s.admission.explained.CompareAndSwap(x, nil)
		defer x.end()
		if x.validate() {
			x.askIn(q.Context)
		}
	}()
	deadline := time.NewTimer(answerDeadline)
	defer deadline.Stop()
	select {
	case <-done:
	case <-deadline.C:
		t.late.Store(true)
		x.expire()
	}
	v.Outcome, _ = x.Outcome()
	v.Answer = t.answer()
	return v
}

// answerKeeper is the transport of a query that no guest has sent: it keeps the answer.
type answerKeeper struct {
	question *TestQuery
	// late is set once no plugin's answer counts any more.
	late atomic.Bool

	mu   sync.Mutex
	kept []byte // guarded by mu
}

func (t *answerKeeper) answer() *dns.Msg {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := new(dns.Msg)
	if t.kept == nil || m.Unpack(t.kept) != nil {
		return nil
	}
	return m
}

func (t *answerKeeper) overTCP() bool { return t.question.TCP }

// send keeps the answer.
func (t *answerKeeper) send(b *buffer, _ time.Time) error {
	if !t.late.Load() {
		t.question.Answered()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = slices.Clone(b.answer)
	return nil
}

func (t *answerKeeper) resumable() bool { return t.question.Resumable }

func (t *answerKeeper) resume() error {
	t.question.Answered()
	return nil
}

// promise implements transport: there is no connection to keep open.
func (t *answerKeeper) promise(time.Duration) int { return -1 }

func (t *answerKeeper) atDeadline(answer func()) { answer() }

func (t *answerKeeper) release() {}

// QueryFrame returns the frame by which a guest sends a query over UDP to a resolver address.
func QueryFrame(guest netip.AddrPort, mac [6]byte, server netip.AddrPort, query []byte) ([]byte, error) {
	ends := frame.Ends{SrcMAC: resolverMAC, DstMAC: mac, Src: server, Dst: guest} // those of what it would answer
	return ends.AppendDatagram(nil, query, false)
}
