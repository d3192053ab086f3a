// SPDX-License-Identifier: Apache-2.0

// Package rpz is a CoreDNS plugin that filters queries by response policy zones
// (draft-vixie-dnsop-dns-rpz-00), as BIND does.
//
//	query ─► decide by the name ─┬─► a rule: answer, drop, or pass
//	                             └─► no rule yet: the next plugin
//	                                   │ its answer
//	                                   ▼
//	                  decide by the targets of CNAME records and the addresses
//	                                   └─► a rule: another answer, none, or this one
//
// decide.go selects the rule; package rules holds them, package source updates them. answer.go makes the
// answer, with a query to the server itself for the target of a local CNAME record; that query is not
// filtered. notify.go hands a NOTIFY to package source.
//
// Queries run on the goroutines of their servers. They take one lock: the log's rate limiter, if the log is
// on and a rule matches. handlersMu guards which handlers *ready* asks.
package rpz

import (
	"context"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

const name = "rpz"

var log = clog.NewWithPlugin(name)

// Handler filters the queries of one server block.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	options
	directive *corefile.Directive
	policies  []*policyZone
	// lookup asks the server for a local CNAME's target.
	lookup func(ctx context.Context, state request.Request, name string, qtype uint16) (*dns.Msg, error)
	// lines is nil for no log.
	lines   *hitLog
	ownKeys []string
}

type options struct {
	// breakDNSSEC: signed answers are rewritten even for clients that set DO.
	breakDNSSEC bool
	// required: queries fail while a zone has no rules, and a start waits for files.
	required bool
	// ede is the Extended DNS Error of answers, 0 for none.
	ede uint16
	// maxTTL limits local data, in seconds.
	maxTTL uint32
	limits rules.Limits
}

func newHandler() *Handler {
	return &Handler{
		options: options{maxTTL: defaultMaxTTL, limits: rules.Limits{Records: defaultMaxRecords, Bytes: defaultMaxBytes}},
		lookup:  upstream.New().Lookup,
	}
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

type targetKey struct{}

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if r.Opcode == dns.OpcodeNotify {
		return h.serveNotify(ctx, w, r)
	}
	state := request.Request{W: w, Req: r}
	if ctx.Value(targetKey{}) != nil || !filtered(r) || plugin.Zones(h.Zones).Matches(state.Name()) == "" {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if z := h.unloaded(); z != nil {
		z.explainMissing(explain.Of(ctx))
		return dns.RcodeServerFailure, nil
	}
	q := &query{handler: h, ctx: ctx, state: state}
	if !q.name.Set(state.QName()) {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	// In hijack mode puntdns does not see the answer of the guest's server.
	o, punted := origin.FromContext(ctx)
	q.punted = punted
	q.unseen = punted && o.Hijacked
	q.keepSigned = state.Do() && !h.breakDNSSEC
	if !q.keepSigned || q.unseen {
		found, verdict := h.decide(&q.name, step{qtype: state.QType(), unseen: q.unseen})
		switch verdict {
		case act:
			found.step = state.QName()
			if o := q.act(&found, nil); o.replaces {
				return dns.RcodeSuccess, q.write(&o)
			}
			return plugin.NextOrFailure(name, h.Next, ctx, w, r)
		case miss:
			q.checked = true
			q.logOnly(found.logged, state.QName())
		}
	}
	answers := &answerWriter{ResponseWriter: w, query: q}
	return plugin.NextOrFailure(name, h.Next, origin.WithReplacer(ctx, answers), answers, r)
}

// filtered reports whether rules apply: to class IN, and to ANY, which includes IN.
func filtered(r *dns.Msg) bool {
	if r.Opcode != dns.OpcodeQuery || len(r.Question) == 0 {
		return false
	}
	class := r.Question[0].Qclass
	return class == dns.ClassINET || class == dns.ClassANY
}

// unloaded returns a zone without rules, nil if all have some or rules are not required.
func (h *Handler) unloaded() *policyZone {
	if !h.required {
		return nil
	}
	for _, z := range h.policies {
		if z.rules() == nil {
			return z
		}
	}
	return nil
}

type query struct {
	handler *Handler
	ctx     context.Context
	state   request.Request
	name    rules.Name
	// keepSigned: a signed answer stays, since the client has set DO and there is no break_dnssec.
	keepSigned bool
	// punted is set for a guest's query, unseen if its answer may not pass here.
	punted, unseen bool
	// checked is set once no rule matches the question's name.
	checked bool
}
