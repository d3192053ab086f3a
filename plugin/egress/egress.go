// SPDX-License-Identifier: Apache-2.0

// Package egress is a CoreDNS plugin with egress policies of guests: which names a guest may resolve, and which addresses its
// answers may lead to. It stands below the names of the guest's own network and below rpz, and above all plugins that answer
// or that ask other servers:
//
//	ovnhosts, neutronhosts, rpz
//	  │ query of a guest
//	  ▼
//	label.Index ─► policies of the guest ─► decide ─┬─ denied, strict on ──► NXDOMAIN
//	  │ none                                        ├─ denied, observe on ─► count, log
//	  ▼                                             ▼                            │
//	ovnforward, cache, file, forward ◄──────────────┴────────────────────────────┘
//	  └─ answer ─► answerWriter (observe on): count, log
//
// Package policy decides. The switch does not enforce addresses yet, so the plugin changes nothing but the answers to names
// that are denied with strict on.
//
// It has no goroutine. A Handler does not change after setup, apart from refusalLog, which has a lock of its own.
package egress

import (
	"context"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/egress/policy"
)

const name = "egress"

// denialTTL bounds the time in seconds that a guest caches a denial: a reload may allow the name.
const denialTTL = 5

// Handler applies policies to the queries of guests in one server block.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	// strict denies names that are not allowed. Otherwise the handler only observes.
	strict bool
	// policies are in the order of the Corefile, and index has their numbers by label and value.
	policies []guestPolicy
	index    label.Index
}

// guestPolicy is the policy of the guests that have a value of a label.
type guestPolicy struct {
	// name is LABEL=VALUE, as metrics and log lines have it.
	name  string
	at    corefile.Position
	rules *policy.Policy
	lines *refusalLog
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// judgedKey marks the context of a query whose name was judged. egress does not judge a lookup that a plugin below
// makes for the query, for example for the target of an alias: the name that the guest has asked counts.
type judgedKey struct{}

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o, punted := origin.FromContext(ctx)
	if !punted || len(r.Question) == 0 || ctx.Value(judgedKey{}) != nil {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	var some [8]int // more are rare
	numbers := h.index.AppendAll(some[:0], o)
	state := request.Request{W: w, Req: r}
	if len(numbers) == 0 || plugin.Zones(h.Zones).Matches(state.Name()) == "" {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	slices.Sort(numbers)
	q := &query{handler: h, ctx: ctx, origin: o, state: state}
	d := h.decide(numbers, state.QName())
	switch {
	case d.verdict == policy.Allowed:
		q.recordAllowed(&d)
	case h.strict:
		q.recordDenied(&d)
		return q.deny(d.verdict)
	default:
		q.recordWouldDeny(&d)
	}
	ctx = context.WithValue(ctx, judgedKey{}, true)
	if d.verdict == policy.Allowed && !h.strict {
		q.numbers = slices.Clone(numbers)
		w = &answerWriter{ResponseWriter: w, query: q, by: d.policy}
	}
	return plugin.NextOrFailure(name, h.Next, ctx, w, r)
}

// query is one query of a guest that has policies.
type query struct {
	handler *Handler
	ctx     context.Context
	origin  *origin.Origin
	state   request.Request
	// numbers are indexes in Handler.policies: the policies of the guest. They are set for an answerWriter.
	numbers []int
}

// decision is what the policies of a guest say of a name.
type decision struct {
	verdict policy.Verdict
	// policy is the one that allows the name, or else the first one of the guest. entry is nil unless it allows the name.
	policy *guestPolicy
	entry  *policy.Entry
}

// decide returns the decision about a name. numbers are the policies of the guest, in the order of the Corefile. Policies add
// up: the first one that allows the name counts.
func (h *Handler) decide(numbers []int, qname string) decision {
	d := decision{policy: &h.policies[numbers[0]]}
	var n policy.Name
	if !n.Set(qname) {
		return d
	}
	for _, i := range numbers {
		p := &h.policies[i]
		switch v, e := p.rules.Name(&n); {
		case v == policy.Allowed:
			return decision{v, p, e}
		case v > d.verdict:
			d.verdict = v
		}
	}
	if qname == "." {
		d.verdict = policy.Above // NXDOMAIN for the root would deny each name
	}
	return d
}

// deny answers that the name does not exist, or that it has no records if the guest may ask for names below it.
func (q *query) deny(v policy.Verdict) (int, error) {
	rcode := dns.RcodeNameError
	if v == policy.Above {
		rcode = dns.RcodeSuccess
	}
	m := new(dns.Msg).SetRcode(q.state.Req, rcode)
	if q.state.QName() != "." { // the owner of a SOA record is never the root
		m = authority.Deny(&q.state, rcode, denialTTL)
		m.Authoritative = false
	}
	authority.AddError(m, q.state.Req, dns.ExtendedErrorCodeFiltered)
	if err := q.state.W.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(name, err)
	}
	return dns.RcodeSuccess, nil
}
