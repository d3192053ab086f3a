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

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// TestQuery is an operator's query in place of a guest.
type TestQuery struct {
	// In is the packet-in that the switch would send, with a UDP frame.
	In openflow.PacketIn
	// Resumable is set if the query may be resumed, TCP if it counts as TCP.
	Resumable, TCP bool
	// Context is the context of the chains, without the exchange.
	Context context.Context
	// Answered is called on the goroutine that answers, resumes or refuses the query.
	Answered func()
	// Looped, if not nil, is called on any goroutine when the loop guard takes a guest's query with the same
	// question for a loop.
	Looped func(by *origin.Origin)
}

// TestResult is the outcome of a TestQuery.
type TestResult struct {
	// Origin is valid if Identified. IsResolver is set if the query is for the guest's resolver address. The chains
	// get the query only if both are set.
	Origin                 origin.Origin
	Identified, IsResolver bool
	// Answer is nil for none.
	Answer  *dns.Msg
	Outcome origin.Outcome
	// Done is closed when the chain has returned, maybe after the deadline.
	Done <-chan struct{}
}

// Ask handles a query like a punted query, but sends, opens and counts nothing. The loop guard sees one such query at a
// time, so that a loop ends.
func (in *Intake) Ask(s *Server, q *TestQuery) TestResult {
	d := new(datagram)
	// The channel has no connection and no tally.
	b := Bridge{Name: in.bridge.Name, Ports: in.bridge.Ports, Open: in.tryOpening}
	b.Stands = func(placement.Opening, string, time.Duration) bool { return false } // so the plugin calls Open
	d.init(&Channel{intake: &Intake{bridge: b}}, s, &q.In, placement.Nowhere)
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

func (in *Intake) tryOpening(ctx context.Context, guest placement.Key, a *opening.Answer) error {
	trial := *a
	trial.Trial = true
	return in.bridge.Open(ctx, guest, &trial)
}

// answerKeeper is the transport of Ask.
type answerKeeper struct {
	question *TestQuery
	// late is set after the deadline.
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

func (t *answerKeeper) promise(time.Duration) int { return -1 }

func (t *answerKeeper) atDeadline(answer func()) { answer() }

func (t *answerKeeper) release() {}

// QueryFrame returns the frame of a guest's query over UDP to a resolver address.
func QueryFrame(guest netip.AddrPort, mac [6]byte, server netip.AddrPort, query []byte) ([]byte, error) {
	ends := frame.Ends{SrcMAC: resolverMAC, DstMAC: mac, Src: server, Dst: guest} // the ends of the answer
	return ends.AppendDatagram(nil, query, false)
}
