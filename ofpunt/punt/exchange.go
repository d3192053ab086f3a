// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Outcomes without an answer, larger than any rcode in a message (RFC 6891, section 6.1.3).
const (
	RcodeResumed = watch.RcodeResumed
	RcodeDropped = watch.RcodeDropped
)

type transport interface {
	overTCP() bool
	// send blocks until the guest has room, or the deadline.
	send(b *buffer, deadline time.Time) error
	resumable() bool
	// resume is called once.
	resume() error
	// promise returns the edns-tcp-keepalive timeout in keepaliveUnit, -1 for none. idle is the server's idle
	// timeout.
	promise(idle time.Duration) int
	// atDeadline calls answer, on another goroutine if answer may block.
	atDeadline(answer func())
	// release is called at the end of the chain.
	release()
}

// Exchange is a guest's DNS message and its answer: several messages for a zone transfer. The first caller that
// answers, drops or resumes wins. It is never reused, and safe for concurrent use.
type Exchange struct {
	server    *Server
	transport transport
	from      *sender
	arrived   time.Time
	// Other goroutines may read payload, request and from once ready is set.
	payload   []byte
	request   dns.Msg
	ready     atomic.Bool
	keepalive bool

	found ovn.LookupCache

	context exchangeContext
	writer  writer
	// nil unless the query is signed and its block has keys
	signer atomic.Pointer[signer]

	// set by admission; ofLimit is nil without a limit on the guest's queries
	slot                        int
	ofGuest, ofNetwork, ofLimit *inFlightCount

	// nil before a block has taken the query
	block atomic.Pointer[Block]
	// last server asked, nil for none; for watchers and *why*
	upstream atomic.Pointer[netip.AddrPort]
	left     atomic.Bool
	// not zero while the reader runs the query
	turn atomic.Uint64
	// *forward* would ask the guest
	looped atomic.Bool
	// set by claim
	done atomic.Bool
	// RcodeResumed or RcodeDropped once done without an answer, else 0
	unanswered atomic.Int32
	answerer   answerer
	// nil until known
	outcome atomic.Pointer[origin.Outcome]
}

func (x *Exchange) init(s *Server, t transport, from *sender) {
	x.server, x.transport, x.from, x.arrived = s, t, from, time.Now()
}

// LeaveReader must be called before the chain blocks: the reader of the connection may run the chain until then.
func (x *Exchange) LeaveReader() {
	if x.left.Swap(true) || x.server == nil {
		return
	}
	x.server.hits.miss()
	if turn := x.turn.Swap(0); turn != 0 {
		x.from.channel.conn.LeaveReader(turn)
	}
}

func (x *Exchange) onReader() bool { return x.turn.Load() != 0 }

// Left reports whether LeaveReader has been called.
func (x *Exchange) Left() bool { return x.left.Load() }

// Key is the context key of an *Exchange.
type Key struct{}

// FromContext returns the exchange of a chain, and false for queries from sockets and lookups by plugins.
func FromContext(ctx context.Context) (*Exchange, bool) {
	x, ok := ctx.Value(Key{}).(*Exchange)
	return x, ok
}

// exchangeContext has all values of an exchange, which is cheaper than a context for each value.
type exchangeContext struct {
	context.Context
	x *Exchange
}

func (c *exchangeContext) Value(key any) any {
	switch key.(type) {
	case Key, origin.ExchangeKey, opening.CallerKey:
		return c.x
	case origin.Key:
		return &c.x.from.origin
	case ovn.LookupCacheKey:
		return &c.x.found
	}
	return c.Context.Value(key)
}

func (x *Exchange) ask() { x.askIn(x.server.Context) }

func (x *Exchange) askIn(ctx context.Context) {
	x.context = exchangeContext{ctx, x}
	x.writer.init(x)
	x.server.Chains.ServeDNS(&x.context, &x.writer, &x.request)
	if !x.Left() {
		x.server.hits.hit()
	}
	x.drop(metric.ReasonUnanswered)
}

// end releases an exchange whose chain has returned. Defer it: it recovers from the chain's panic.
func (x *Exchange) end() {
	x.panicked(recover())
	if x.ofGuest != nil {
		x.server.admission.release(x)
		x.from.channel.pending.Add(-1)
	}
	x.transport.release()
}

func (x *Exchange) panicked(r any) {
	if r != nil {
		x.server.logPanic(x.from.channel.intake.bridge.Name, r)
		x.drop(metric.ReasonPanic)
	}
}

// Request returns the query, which the chains may change.
func (x *Exchange) Request() *dns.Msg { return &x.request }

// Arrived implements origin.Exchange.
func (x *Exchange) Arrived() time.Time { return x.arrived }

// Block is an immutable server block of a Corefile.
type Block struct {
	Recursive bool
	Watched   watch.Block
}

// SetBlock records the block of the query.
func (x *Exchange) SetBlock(b *Block) { x.block.Store(b) }

// offersRecursion is for the query's block, or for any block if it has none.
func (x *Exchange) offersRecursion() bool {
	if b := x.block.Load(); b != nil {
		return b.Recursive
	}
	return x.server.Recursive
}

func (x *Exchange) unmatched() bool { return x.block.Load() == nil }

// WantsUpstream reports whether SetUpstream has an effect.
func (x *Exchange) WantsUpstream() bool { return x.watched() || x.server.lastQueries != nil }

// SetUpstream implements origin.UpstreamSetter.
func (x *Exchange) SetUpstream(server netip.AddrPort) {
	if x.WantsUpstream() {
		kept := server // allocated only here
		x.upstream.Store(&kept)
	}
}

// Unanswered reports whether the exchange is done. Without an answer rcode is RcodeResumed or RcodeDropped, else 0.
func (x *Exchange) Unanswered() (rcode int, done bool) {
	if !x.done.Load() {
		return 0, false
	}
	return int(x.unanswered.Load()), true
}

// Outcome implements origin.Exchange.
func (x *Exchange) Outcome() (f origin.Outcome, known bool) {
	if p := x.outcome.Load(); p != nil {
		return *p, true
	}
	return f, false
}

var (
	answeredByChain = &origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}
	resumedByChain  = &origin.Outcome{Result: metric.Resumed, Reason: metric.ReasonChain}
)

// rcode is as in origin.Outcome.
func (x *Exchange) setOutcome(result, reason string, rcode int) {
	switch {
	case reason == metric.ReasonChain && result == metric.Answered:
		x.outcome.Store(answeredByChain)
	case reason == metric.ReasonChain && result == metric.Resumed:
		x.outcome.Store(resumedByChain)
	default:
		f := &origin.Outcome{Result: result, Reason: reason, Rcode: rcode}
		if rcode != 0 {
			f.At = time.Now()
		}
		x.outcome.Store(f)
	}
}

// claim reports whether the caller is the first to answer, drop or resume the exchange.
func (x *Exchange) claim() bool { return x.done.CompareAndSwap(false, true) }

// Resume implements origin.Resumer.
func (x *Exchange) Resume() error {
	switch {
	case x.looped.Load():
		return x.resume(metric.ReasonLoop)
	case x.unmatched():
		return x.resume(metric.ReasonNoBlock)
	}
	return x.resume(metric.ReasonChain)
}

func (x *Exchange) resume(reason string) error {
	if !x.transport.resumable() {
		return errNotResumable
	}
	if !x.claim() {
		return errDone
	}
	if err := x.transport.resume(); err != nil {
		x.unanswered.Store(RcodeDropped)
		x.drops(metric.ReasonConnection)
		return err
	}
	x.unanswered.Store(RcodeResumed)
	x.setOutcome(metric.Resumed, reason, 0)
	x.finish(metric.Resumed, reason, RcodeResumed)
	return nil
}

// resumeOrDrop counts result if it drops.
func (x *Exchange) resumeOrDrop(result, reason string) {
	if x.transport.resumable() {
		_ = x.resume(reason) // resume counts
		return
	}
	if x.claim() {
		x.finish(result, reason, RcodeDropped)
	}
}

func (x *Exchange) drop(reason string) {
	if x.claim() {
		x.drops(reason)
	}
}

// The exchange is claimed.
func (x *Exchange) drops(reason string) {
	x.setOutcome(metric.Dropped, reason, 0)
	x.finish(metric.Dropped, reason, RcodeDropped)
}

// refuse answers with an error before the chains. In hijack mode it resumes the query, as the destination may have
// an answer. An unknown guest's query is resumed in every mode unless guests fail closed.
func (x *Exchange) refuse(rcode int, reason string) {
	unknown := reason == metric.ReasonOrigin
	if x.transport.resumable() && (x.server.hijack() || unknown) && !(unknown && x.server.Guests.FailClosed) {
		x.resumeOrDrop(metric.Resumed, reason)
		return
	}
	x.replyError(rcode, metric.Refused, reason)
}

// expire answers at the deadline. The exchange is in flight until its chain returns.
func (x *Exchange) expire() {
	if x.ready.Load() && !x.done.Load() {
		x.transport.atDeadline(func() {
			x.replyError(dns.RcodeServerFailure, metric.Answered, metric.ReasonDeadline)
		})
	}
}

func (x *Exchange) replyError(rcode int, result, reason string) {
	b := buffers.get()
	defer buffers.put(b)
	answer := appendError(b.answer[:0], x.payload, rcode, x.offersRecursion())
	if answer == nil {
		x.drop(metric.ReasonShort)
		return
	}
	b.answer, b.rcode, b.answerer = answer, rcode, answerer{}
	if x.transport.overTCP() {
		b.answer = appendKeepalive(answer, x.promise(asksKeepalive(x.payload)))
	}
	_ = x.reply(b, result, reason, rcode) // reply counts
}

// reply does nothing if the exchange is claimed. rcode is as in setOutcome.
func (x *Exchange) reply(b *buffer, result, reason string, rcode int) error {
	if !x.claim() {
		return errDone
	}
	x.answerer = b.answerer
	x.store(result, reason, b.rcode)    // before the guest may ask why
	x.setOutcome(result, reason, rcode) // before sending, which may take long
	if x.from.channel.intake.bridge.Ports.Moved(x.from.owner, x.from.inPort) {
		x.drops(metric.ReasonPort)
		return nil
	}
	if err := x.transport.send(b, x.arrived.Add(answerDeadline)); err != nil {
		x.drops(metric.ReasonConnection)
		return err
	}
	x.count(result, reason, b.rcode)
	return nil
}

func (x *Exchange) replyMore(b *buffer) error {
	if x.from.channel.intake.bridge.Ports.Moved(x.from.owner, x.from.inPort) {
		return errMoved
	}
	return x.transport.send(b, x.arrived.Add(answerDeadline))
}

// The arguments are those of count.
func (x *Exchange) finish(result, reason string, rcode int) {
	x.store(result, reason, rcode)
	x.count(result, reason, rcode)
}

// count is called once. rcode is the answer's rcode, RcodeResumed or RcodeDropped.
func (x *Exchange) count(result, reason string, rcode int) {
	if x.watched() {
		x.publish(result, reason, rcode)
	}
	x.from.count(result, reason)
	if x.transport.overTCP() {
		x.from.channel.intake.bridge.Tally.TCPQuery(result, reason)
		return
	}
	x.from.channel.intake.bridge.Tally.PacketIn(result, reason)
}
