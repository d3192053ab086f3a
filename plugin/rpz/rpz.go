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
// decide.go decides which rule applies, by the rules of package rules, which package source keeps up to date.
// answer.go makes the answer. For the target of a local CNAME record it queries the server itself, and that
// query is not filtered again. notify.go hands a NOTIFY for a policy zone to package source.
//
// Queries are handled on the goroutines of their servers. They take one lock: the lock of the rate of log
// lines, if the log is on and a rule matches. handlersMu guards which handlers *ready* asks.
package rpz

import (
	"context"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
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
	// policies are in the order of the Corefile.
	policies []*policyZone
	// lookup asks the server for the target of a local CNAME record.
	lookup func(ctx context.Context, state request.Request, name string, qtype uint16) (*dns.Msg, error)
	// lines bounds the log lines, nil for no log.
	lines *hitLog
	// ownKeys is set by shareKeys.
	ownKeys []string
}

// options are the properties that are not of one zone.
type options struct {
	// breakDNSSEC has signed answers rewritten for those who ask for signatures.
	breakDNSSEC bool
	// required has queries fail while a zone has no rules, and a start wait for files.
	required bool
	// ede is the code of the Extended DNS Error in answers, 0 for none.
	ede uint16
	// maxTTL is the largest TTL of local data in seconds.
	maxTTL uint32
	// limits bound each zone.
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

// targetKey marks the context of a lookup of a target.
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
	if h.required && h.unloaded() != nil {
		return dns.RcodeServerFailure, nil
	}
	q := &query{handler: h, ctx: ctx, state: state}
	if !q.name.Set(state.QName()) {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	// In hijack mode the answer of the server that the guest has asked does not come by here.
	o, punted := origin.FromContext(ctx)
	q.punted = punted
	q.unseen = punted && o.Hijacked
	q.keepSigned = state.Do() && !h.breakDNSSEC
	if !q.keepSigned || q.unseen {
		found, verdict := h.decide(&q.name, step{qtype: state.QType(), unseen: q.unseen})
		switch verdict {
		case act:
			found.step = state.QName()
			if done, err := q.act(&found, nil); done {
				return dns.RcodeSuccess, err
			}
			return plugin.NextOrFailure(name, h.Next, ctx, w, r)
		case miss:
			q.checked = true
			q.logOnly(found.logged, state.QName())
		}
	}
	return plugin.NextOrFailure(name, h.Next, ctx, &answerWriter{ResponseWriter: w, query: q}, r)
}

// filtered reports whether rules are for a message: for a query for names of the Internet, ANY
// class included, which has these too.
func filtered(r *dns.Msg) bool {
	if r.Opcode != dns.OpcodeQuery || len(r.Question) == 0 {
		return false
	}
	class := r.Question[0].Qclass
	return class == dns.ClassINET || class == dns.ClassANY
}

// unloaded returns a zone that has no rules, nil if all have.
func (h *Handler) unloaded() *policyZone {
	for _, z := range h.policies {
		if z.rules() == nil {
			return z
		}
	}
	return nil
}

// query is one query that is being filtered.
type query struct {
	handler *Handler
	ctx     context.Context
	state   request.Request
	name    rules.Name
	// keepSigned is set if a signed answer has to stay as it is: the client has set DO, and there is no
	// break_dnssec.
	keepSigned bool
	// punted is set for a query of a guest, unseen where its answer may not come by here.
	punted, unseen bool
	// checked is set once no rule is for the name of the question itself.
	checked bool
}
