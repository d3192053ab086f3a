// SPDX-License-Identifier: Apache-2.0

// Package audit is a CoreDNS plugin that writes a line of JSON for each query: the guest, as the switch and
// the databases identify it, and the answer. The plugin stands above the plugins that answer, so it also
// writes local and cached answers.
//
//	query ─► Handler.ServeDNS ─► next plugins
//	              │ recorder: what they answer
//	              ▼
//	         fields ─► a line ─► internal/trail: queue, file or socket
//
// The package starts no goroutine and has no lock.
package audit

import (
	"context"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/trail"
)

const name = "audit"

var log = clog.NewWithPlugin(name)

// Handler writes the queries of one server block to an audit log.
type Handler struct {
	Next plugin.Handler

	directive *corefile.Directive
	target    trail.Target
	config    trail.Config
	fields    []field
	// wantsRecords is set if fields include records.
	wantsRecords bool
	// lease is valid from OnStartup to OnShutdown.
	lease *trail.Lease
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

// queryKey is the context key that marks the chain of a query from a socket.
type queryKey struct{}

// isLookup reports whether a plugin, and not a client, sends the query.
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

// write writes the line of a query after its chain has returned code.
func (h *Handler) write(rec *recorder, code int) {
	rec.end(code)
	p := lines.Get().(*[]byte)
	b := append((*p)[:0], `"event":"query","time":`...)
	b = trail.AppendTime(b, rec.arrived)
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

// recorder is the dns.ResponseWriter of the next plugins, which may retain it. It records the answer.
type recorder struct {
	dns.ResponseWriter
	ctx    context.Context
	origin *origin.Origin // empty for a query from a socket
	punted bool

	// The query as it arrived: plugins may change the message. arrived is the time.
	arrived  time.Time
	question dns.Question
	id       uint16
	flags    flags
	dnssecOK bool

	// written is set once an answer was sent. rcode, answerFlags, answers and records describe the answer.
	// failed is the last error of WriteMsg. records is the answer section as a JSON value, empty unless
	// wantsRecords is set.
	written      bool
	rcode        int
	answerFlags  flags
	answers      int
	records      []byte
	wantsRecords bool
	failed       error

	// result and reason are as in origin.Outcome. answered is set if the guest got an rcode. duration is the
	// time from the query to the answer, or to the end of the chain.
	result, reason string
	answered       bool
	duration       time.Duration
}

// Queries from a socket have this origin.
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

// WriteMsg implements dns.ResponseWriter.
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

// Write implements dns.ResponseWriter. No plugin of this build calls it.
func (rec *recorder) Write(p []byte) (int, error) {
	n, err := rec.ResponseWriter.Write(p)
	if m := new(dns.Msg); err == nil && m.Unpack(p) == nil {
		rec.note(m)
	}
	return n, err
}

// Results and reasons of a query without an origin.Outcome.
const (
	resultAnswered   = "answered"
	resultDropped    = "dropped"
	reasonChain      = "chain"
	reasonConnection = "connection"
	reasonUnanswered = "unanswered"
)

// end sets the result of the query after its chain has returned code.
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

// flags are the bits of a header (RFC 1035, section 4.1.1; RFC 4035, section 3.2), in the order of flagNames.
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

// append appends the names of the flags, separated by commas.
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
