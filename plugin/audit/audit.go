// SPDX-License-Identifier: Apache-2.0

// Package audit is a CoreDNS plugin that writes a line of JSON for each query: the guest, as the switch and the
// databases identify it, and the answer. It stands above the plugins that answer, to see local and cached answers.
//
//	query ─► Handler.ServeDNS ─► next plugins
//	              │ recorder
//	              ▼
//	         fields ─► a line ─► internal/auditlog: queue, file or socket
//
// audit has no goroutine or lock.
package audit

import (
	"context"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/auditlog"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
)

const name = "audit"

var log = clog.NewWithPlugin(name)

// Handler writes the queries of a server block to an audit log.
type Handler struct {
	Next plugin.Handler

	directive    *corefile.Directive
	target       auditlog.Target
	config       auditlog.Config
	fields       []field
	wantsRecords bool
	// lease is valid from OnStartup to OnShutdown.
	lease *auditlog.Lease
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (code int, err error) {
	if isLookup(ctx) || len(r.Question) == 0 {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	rec := newRecorder(ctx, w, r)
	rec.wantsRecords = h.wantsRecords
	next := ctx
	if !rec.punted {
		// A plugin's own lookup comes here with this context.
		next = context.WithValue(ctx, queryKey{}, true)
	}
	code = dns.RcodeServerFailure // if a plugin panics
	defer func() { h.write(rec, code) }()
	return plugin.NextOrFailure(name, h.Next, next, rec, r)
}

// queryKey marks a query from a socket.
type queryKey struct{}

func isLookup(ctx context.Context) bool {
	if o, punted := origin.FromContext(ctx); punted {
		return o.Lookup
	}
	return ctx.Value(queryKey{}) != nil
}

var lines = sync.Pool{New: func() any {
	b := make([]byte, 0, 1024)
	return &b
}}

func (h *Handler) write(rec *recorder, code int) {
	rec.end(code)
	p := lines.Get().(*[]byte)
	b := append((*p)[:0], `"event":"query","time":`...)
	b = auditlog.AppendTime(b, rec.arrived)
	for i := range h.fields {
		f := &h.fields[i]
		b = f.value(append(b, f.key...), rec)
	}
	b = append(b, '}')
	h.lease.Append(b)
	if *p = b; cap(b) <= 16<<10 {
		lines.Put(p)
	}
}

// recorder records the answer. Plugins may retain it.
type recorder struct {
	dns.ResponseWriter
	ctx    context.Context
	origin *origin.Origin // empty for a query from a socket
	punted bool

	// As the query arrived; plugins may change the message.
	arrived  time.Time
	question dns.Question
	id       uint16
	flags    flags
	dnssecOK bool

	// Of the sent answer, valid if written is set. failed is the last error of WriteMsg. records is JSON, nil without
	// wantsRecords.
	written      bool
	rcode        int
	answerFlags  flags
	answers      int
	records      []byte
	wantsRecords bool
	failed       error

	// As in origin.Outcome. answered: the guest got an rcode. duration ends with the answer, or the chain.
	result, reason string
	answered       bool
	duration       time.Duration
}

// nobody is the origin of a query from a socket.
var nobody origin.Origin

func newRecorder(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) *recorder {
	rec := &recorder{ResponseWriter: w, ctx: ctx, origin: &nobody, question: r.Question[0], id: r.Id, flags: flagsOf(r)}
	if o, punted := origin.FromContext(ctx); punted {
		rec.origin, rec.punted = o, true
	}
	if x, ok := origin.ExchangeFromContext(ctx); ok {
		rec.arrived = x.Arrived()
	} else {
		rec.arrived = time.Now()
	}
	if o := r.IsEdns0(); o != nil {
		rec.dnssecOK = o.Do()
	}
	return rec
}

func (rec *recorder) WriteMsg(m *dns.Msg) error {
	err := rec.ResponseWriter.WriteMsg(m)
	if err != nil {
		rec.failed = err
		return err
	}
	rec.note(m) // the writers below have changed m to the sent message
	return nil
}

func (rec *recorder) note(m *dns.Msg) {
	rec.written, rec.rcode, rec.answerFlags, rec.answers = true, m.Rcode, flagsOf(m), len(m.Answer)
	rec.duration = time.Since(rec.arrived)
	if rec.wantsRecords {
		rec.records = appendRecords(nil, m.Answer)
	}
}

// Write is called by no plugin of this build.
func (rec *recorder) Write(p []byte) (int, error) {
	n, err := rec.ResponseWriter.Write(p)
	if m := new(dns.Msg); err == nil && m.Unpack(p) == nil {
		rec.note(m)
	}
	return n, err
}

// Results and reasons without an origin.Outcome.
const (
	resultAnswered   = "answered"
	resultDropped    = "dropped"
	reasonChain      = "chain"
	reasonConnection = "connection"
	reasonUnanswered = "unanswered"
)

func (rec *recorder) end(code int) {
	if !rec.written {
		rec.duration = time.Since(rec.arrived)
	}
	outcome, known := rec.outcome()
	switch {
	case rec.written || !known && !plugin.ClientWrite(code):
		rec.result, rec.reason, rec.answered = resultAnswered, reasonChain, true
		if !rec.written {
			rec.rcode = code // CoreDNS answers with code
		}
		if known {
			rec.result, rec.reason = outcome.Result, outcome.Reason
			rec.answered = outcome.Result != resultDropped
		}
	case known:
		rec.result, rec.reason = outcome.Result, outcome.Reason
		if rec.rcode = outcome.Rcode; rec.rcode != 0 {
			rec.answered, rec.duration = true, outcome.At.Sub(rec.arrived)
		}
	case rec.failed != nil:
		rec.result, rec.reason = resultDropped, reasonConnection
	default:
		rec.result, rec.reason = resultDropped, reasonUnanswered
	}
	if !rec.answered {
		rec.answerFlags, rec.answers, rec.records = 0, 0, nil // the guest did not get the answer
	}
}

func (rec *recorder) outcome() (f origin.Outcome, known bool) {
	if x, ok := origin.ExchangeFromContext(rec.ctx); ok {
		return x.Outcome()
	}
	return f, false
}

// flags are header bits (RFC 1035, section 4.1.1; RFC 4035, section 3.2), in the order of flagNames.
type flags uint8

var flagNames = [...]string{"qr", "aa", "tc", "rd", "ra", "ad", "cd"}

func flagsOf(m *dns.Msg) (f flags) {
	for i, set := range [...]bool{m.Response, m.Authoritative, m.Truncated, m.RecursionDesired, m.RecursionAvailable, m.AuthenticatedData, m.CheckingDisabled} {
		if set {
			f |= 1 << i
		}
	}
	return f
}

func (f flags) append(b []byte) []byte {
	first := true
	for i, name := range flagNames {
		if f&(1<<i) == 0 {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		b, first = append(b, name...), false
	}
	return b
}
