// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Outcomes of an exchange without an answer. They are larger than any rcode in a message
// (RFC 6891, section 6.1.3).
const (
	RcodeResumed = watch.RcodeResumed
	RcodeDropped = watch.RcodeDropped
)

// transport has brought the query of an exchange, and sends its answer.
type transport interface {
	// overTCP reports whether it is a TCP connection, else it is a datagram.
	overTCP() bool
	// send sends b.answer. It blocks as long as the guest has no room for it, until the
	// deadline.
	send(b *buffer, deadline time.Time) error
	// resumable reports whether the query may be resumed.
	resumable() bool
	// resume gives the query back to the switch, once.
	resume() error
	// promise returns the timeout of edns-tcp-keepalive that the connection holds to, in
	// units of keepaliveUnit, where the server allows it to be idle for so long; -1 for none.
	promise(idle time.Duration) int
	// atDeadline calls answer, on another goroutine if that may block.
	atDeadline(answer func())
	// release says that the chain has ended.
	release()
}

// Exchange is one DNS message of a guest and its one answer, which for a zone transfer may have several
// messages. The first caller that answers the message, drops it or resumes it decides. An Exchange is never
// used for a second message. Its methods are safe for concurrent use, unless they say otherwise.
type Exchange struct {
	server    *Server
	transport transport
	from      *sender
	arrived   time.Time
	// payload is the message, and request the parsed message. Other goroutines may read them, and from, once
	// ready is set: then a chain is to answer.
	payload []byte
	request dns.Msg
	ready   atomic.Bool
	// keepalive is set if the query has edns-tcp-keepalive.
	keepalive bool

	// found is what the databases were found to know of the name.
	found ovn.LookupCache

	// context and writer are what the chain gets beside request.
	context exchangeContext
	writer  writer
	// signer is nil unless the query is signed, and its block has keys.
	signer atomic.Pointer[signer]

	// slot is the place of the exchange in admission, ofGuest and ofNetwork count it; nil
	// unless it was admitted. ofLimit does for the limit of the guest, nil if that has none on
	// queries.
	slot                        int
	ofGuest, ofNetwork, ofLimit *inFlightCount

	// block is the block that has taken the query, nil as long as none has.
	block atomic.Pointer[Block]
	// upstream is the server that a plugin has asked last. It is nil for none, and without a watcher and the property
	// *why*.
	upstream atomic.Pointer[netip.AddrPort]
	// looped is set if forward would ask the guest itself.
	looped atomic.Bool
	// done is set by the caller that answers, drops or resumes the exchange (claim).
	done atomic.Bool
	// unanswered is the outcome once done is set without an answer; else 0.
	unanswered atomic.Int32
	// answerer is who has answered. The caller that claims the exchange sets it.
	answerer answerer
	// outcome is what has become of the exchange, nil while that is not known.
	outcome atomic.Pointer[origin.Outcome]
}

func (x *Exchange) init(s *Server, t transport, from *sender) {
	x.server, x.transport, x.from, x.arrived = s, t, from, time.Now()
}

// Key is the context key of an *Exchange.
type Key struct{}

// FromContext returns the exchange of a chain. It reports false for a query from a socket, and for a query
// that a plugin makes.
func FromContext(ctx context.Context) (*Exchange, bool) {
	x, ok := ctx.Value(Key{}).(*Exchange)
	return x, ok
}

// exchangeContext is the context of a server with the values of an exchange: one context of
// many values is a fraction of as many contexts of one.
type exchangeContext struct {
	context.Context
	x *Exchange
}

// Value implements context.Context.
func (c *exchangeContext) Value(key any) any {
	switch key.(type) {
	case Key, origin.ExchangeKey:
		return c.x
	case origin.Key:
		return &c.x.from.origin
	case ovn.LookupCacheKey:
		return &c.x.found
	}
	return c.Context.Value(key)
}

// ask has the chain answer the query.
func (x *Exchange) ask() { x.askIn(x.server.Context) }

// askIn is ask with another context than the context of the server.
func (x *Exchange) askIn(ctx context.Context) {
	x.context = exchangeContext{ctx, x}
	x.writer.init(x)
	x.server.Chains.ServeDNS(&x.context, &x.writer, &x.request)
	x.drop(metric.ReasonUnanswered)
}

// end releases an exchange whose chain has returned. Defer it: it recovers from a panic of the chain.
func (x *Exchange) end() {
	x.panicked(recover())
	if x.ofGuest != nil {
		x.server.admission.release(x)
		x.from.channel.pending.Add(-1)
	}
	x.transport.release()
}

// panicked drops the exchange if r, which recover has returned, is a panic.
func (x *Exchange) panicked(r any) {
	if r != nil {
		x.server.logPanic(x.from.channel.intake.bridge.Name, r)
		x.drop(metric.ReasonPanic)
	}
}

// Request returns the query as the chains get it. It is theirs to change.
func (x *Exchange) Request() *dns.Msg { return &x.request }

// Arrived implements origin.Exchange.
func (x *Exchange) Arrived() time.Time { return x.arrived }

// Block is a server block of a Corefile. It is immutable.
type Block struct {
	// Recursive is set if the block offers recursion.
	Recursive bool
	// Watched is what watchers see of the block.
	Watched watch.Block
}

// SetBlock says that the query has come to a block.
func (x *Exchange) SetBlock(b *Block) { x.block.Store(b) }

// offersRecursion reports whether the guest may count on recursion: of a query that has not
// come to its block, whether any block offers it.
func (x *Exchange) offersRecursion() bool {
	if b := x.block.Load(); b != nil {
		return b.Recursive
	}
	return x.server.Recursive
}

// unmatched reports whether no block has taken the query.
func (x *Exchange) unmatched() bool { return x.block.Load() == nil }

// WantsUpstream reports whether anything shows the server that a plugin asks.
func (x *Exchange) WantsUpstream() bool { return x.watched() || x.server.lastQueries != nil }

// SetUpstream implements origin.UpstreamSetter.
func (x *Exchange) SetUpstream(server netip.AddrPort) {
	if x.WantsUpstream() {
		kept := server // to be allocated here only
		x.upstream.Store(&kept)
	}
}

// Unanswered reports whether the exchange is done. rcode is RcodeResumed or RcodeDropped if the guest has got no
// answer, else 0.
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

// The outcomes of most exchanges.
var (
	answeredByChain = &origin.Outcome{Result: metric.Answered, Reason: metric.ReasonChain}
	resumedByChain  = &origin.Outcome{Result: metric.Resumed, Reason: metric.ReasonChain}
)

// setOutcome sets the outcome of the exchange. rcode is the rcode of an answer that no plugin has written, else
// 0.
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

// claim reports whether the caller is the first to deal with the exchange.
func (x *Exchange) claim() bool { return x.done.CompareAndSwap(false, true) }

// Resume gives the packet of the query back to the switch, on to its own destination. It is
// origin.Resumer.
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

// pass resumes the query if that may be, and counts it with result otherwise.
func (x *Exchange) resumeOrDrop(result, reason string) {
	if x.transport.resumable() {
		_ = x.resume(reason) // counted there
		return
	}
	if x.claim() {
		x.finish(result, reason, RcodeDropped)
	}
}

// drop counts the query as dropped, unless it has been dealt with.
func (x *Exchange) drop(reason string) {
	if x.claim() {
		x.drops(reason)
	}
}

// drops counts an exchange that has been claimed as dropped.
func (x *Exchange) drops(reason string) {
	x.setOutcome(metric.Dropped, reason, 0)
	x.finish(metric.Dropped, reason, RcodeDropped)
}

// refuse answers with an error without any plugin. In hijack mode it resumes the query instead: the server at
// its destination may know better. A query of an unknown guest stays here if guests fail closed.
func (x *Exchange) refuse(rcode int, reason string) {
	unknown := reason == metric.ReasonOrigin
	if x.transport.resumable() && (x.server.hijack() || unknown) && !(unknown && x.server.Guests.FailClosed) {
		x.resumeOrDrop(metric.Resumed, reason)
		return
	}
	x.replyError(rcode, metric.Refused, reason)
}

// expire answers for a chain that takes too long. The exchange stays in flight until its chain returns.
func (x *Exchange) expire() {
	if x.ready.Load() && !x.done.Load() {
		x.transport.atDeadline(func() {
			x.replyError(dns.RcodeServerFailure, metric.Answered, metric.ReasonDeadline)
		})
	}
}

// replyError answers with rcode and the question.
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
	_ = x.reply(b, result, reason, rcode) // counted there
}

// reply sends b.answer and counts it, unless the exchange has been dealt with before. rcode is as in setOutcome.
func (x *Exchange) reply(b *buffer, result, reason string, rcode int) error {
	if !x.claim() {
		return errDone
	}
	x.answerer = b.answerer
	x.store(result, reason, b.rcode)    // a guest that has its answer may ask at once
	x.setOutcome(result, reason, rcode) // sending may take long
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

// replyMore sends a message behind the first one of the answer.
func (x *Exchange) replyMore(b *buffer) error {
	if x.from.channel.intake.bridge.Ports.Moved(x.from.owner, x.from.inPort) {
		return errMoved
	}
	return x.transport.send(b, x.arrived.Add(answerDeadline))
}

// finish stores and counts the outcome of an exchange without an answer. The arguments are the arguments of count.
func (x *Exchange) finish(result, reason string, rcode int) {
	x.store(result, reason, rcode)
	x.count(result, reason, rcode)
}

// count counts the outcome of the exchange, and publishes it to watchers. rcode is the rcode of the answer,
// or RcodeResumed or RcodeDropped. It is called once.
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
