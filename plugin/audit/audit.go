// SPDX-License-Identifier: Apache-2.0

// Package audit is a CoreDNS plugin that writes a line of JSON for each query: who has asked, by
// what the switch and the databases say, and what the guest was told. It stands above the plugins
// that answer, so that local and cached answers are in the trail.
//
//	query ─► Handler.ServeDNS ─► next plugins
//	              │ recorder: what they answer
//	              ▼
//	         fields ─► a line ─► internal/trail: queue, file or socket
//
// It has no goroutine and no lock of its own.
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

// Handler writes the queries of one server block to a trail.
type Handler struct {
	Next plugin.Handler

	directive *corefile.Directive
	target    trail.Target
	config    trail.Config
	fields    []field
	// wantsRecords is set if a field has the records of the answer.
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
		// A lookup of a plugin comes here with this context.
		next = context.WithValue(ctx, queryKey{}, true)
	}
	code = dns.RcodeServerFailure // of a plugin that panics
	defer func() { h.write(rec, code) }()
	return plugin.NextOrFailure(name, h.Next, next, rec, r)
}

// queryKey is the context key of a query from a socket that is being answered.
type queryKey struct{}

// isLookup reports whether a question is one that a plugin asks for its own ends.
func isLookup(ctx context.Context) bool {
	if o, punted := origin.FromContext(ctx); punted {
		return o.Lookup
	}
	return ctx.Value(queryKey{}) != nil
}

// lines are buffers for one line each.
var lines = sync.Pool{New: func() any {
	b := make([]byte, 0, 1024)
	return &b
}}

// write writes the line of a query whose chain has returned code.
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

// recorder is the dns.ResponseWriter that the next plugins get, and what is known of the query.
// They may keep it.
type recorder struct {
	dns.ResponseWriter
	ctx    context.Context
	origin *origin.Origin // nobody for a query from a socket
	punted bool

	// What has come: the plugins may change the message. arrived is when.
	arrived  time.Time
	question dns.Question
	id       uint16
	flags    flags
	dnssecOK bool

	// written is set once an answer was sent, of which the rest is; the error of the last
	// attempt is failed. records are those of the answer section as a value of JSON, empty unless
	// wantsRecords is set.
	written      bool
	rcode        int
	answerFlags  flags
	answers      int
	records      []byte
	wantsRecords bool
	failed       error

	// result and reason are those of origin.Fate, and answered is set if the guest has got an
	// rcode. duration is the time from the query to the answer, or to the end of the chain.
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

// WriteMsg implements dns.ResponseWriter.
func (rec *recorder) WriteMsg(m *dns.Msg) error {
	err := rec.ResponseWriter.WriteMsg(m)
	if err != nil {
		rec.failed = err
		return err
	}
	rec.note(m) // the writers below have changed it to what is sent
	return nil
}

// note takes down the answer.
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

// Results and reasons of a query whose exchange does not tell them.
const (
	resultAnswered   = "answered"
	resultDropped    = "dropped"
	reasonChain      = "chain"
	reasonConnection = "connection"
	reasonUnanswered = "unanswered"
)

// end decides what has become of the query, once its chain has returned code.
func (rec *recorder) end(code int) {
	if !rec.written {
		rec.duration = time.Since(rec.arrived)
	}
	fate, known := rec.fate()
	switch {
	case rec.written || !known && !plugin.ClientWrite(code):
		rec.result, rec.reason, rec.answered = resultAnswered, reasonChain, true
		if !rec.written {
			rec.rcode = code // the server answers so
		}
		if known {
			rec.result, rec.reason = fate.Result, fate.Reason
			rec.answered = fate.Result != resultDropped
		}
	case known:
		rec.result, rec.reason = fate.Result, fate.Reason
		if rec.rcode = fate.Rcode; rec.rcode != 0 {
			rec.answered, rec.duration = true, fate.At.Sub(rec.arrived)
		}
	case rec.failed != nil:
		rec.result, rec.reason = resultDropped, reasonConnection
	default:
		rec.result, rec.reason = resultDropped, reasonUnanswered
	}
	if !rec.answered {
		rec.answerFlags, rec.answers, rec.records = 0, 0, nil // of an answer that nobody got
	}
}

func (rec *recorder) fate() (f origin.Fate, known bool) {
	if x, ok := origin.ExchangeFromContext(rec.ctx); ok {
		return x.Fate()
	}
	return f, false
}

// flags are the bits of a header (RFC 1035, section 4.1.1; RFC 4035, section 3.2), in the order of
// flagNames.
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

// append appends the names of the flags with commas between them.
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
