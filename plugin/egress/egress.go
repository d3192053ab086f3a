// SPDX-License-Identifier: Apache-2.0

// Package egress is a CoreDNS plugin that applies egress policies: which names a guest may resolve, and which
// addresses the answers open. It stands below the names of the guest's network and rpz, above all plugins that answer
// or query servers:
//
//	ovnhosts, neutronhosts, rpz
//	  │ query of a guest
//	  ▼
//	label.Index ─► policies of the guest ─► decide ─┬─ denied, strict on ──► NXDOMAIN
//	  │ none                                        ├─ denied, observe on ─► count, log
//	  ▼                                             ▼                            │
//	ovnforward, cache, file, forward ◄──────────────┴────────────────────────────┘
//	  └─ answer ─► opener ─► opening.Opener: the switch lets the guest send to the addresses of the answer
//
// ofpunt calls PolicyOf too, to close what a reload no longer allows.
//
// egress has no goroutine. A Handler does not change after setup, except sets (under mu), and refusalLog and learned,
// which have their own locks.
package egress

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
)

const name = "egress"

// denialTTL, in seconds, is short: a reload may allow the name.
const denialTTL = 5

// Handler applies the policies of a server block.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	at corefile.Position
	// strict denies names that are not allowed; with namesOnly the switch opens nothing. observe changes no answer.
	strict, namesOnly, observe bool
	settings                   opening.Settings
	// floor is how long addresses stay open at least.
	floor time.Duration
	// No name opens closed, or an address that onNode reports.
	closed []netip.Prefix
	onNode func(netip.Addr) bool
	// forwards knows the zones that a tenant's servers answer, nil without ovnforward.
	forwards forwarder
	// index has the indexes in policies by label and value.
	policies []guestPolicy
	index    label.Index
	// northbound stands for all Northbound policies in metrics and log lines, nil if these do not count.
	northbound *guestPolicy

	mu sync.Mutex // guards sets
	// sets has combined policies, by appendKey.
	sets map[string]*set
}

type forwarder interface {
	Takes(o *origin.Origin, qname string, qtype uint16) bool
}

// guestPolicy is the policy of guests with a value of a label.
type guestPolicy struct {
	// name is LABEL=VALUE, for metrics and log lines.
	name string
	at   corefile.Position
	// rules and names are nil in Handler.northbound.
	rules *policy.Policy
	lines *refusalLog
	names *learned
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// judged is the context for the plugins below. It marks the query as judged, so egress does not judge the names that
// these plugins look up for the answer.
type judged struct{ *query }

type judgedKey struct{}

// Value implements context.Context.
func (j judged) Value(key any) any {
	if key == (judgedKey{}) {
		return true
	}
	return j.Context.Value(key)
}

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o, punted := origin.FromContext(ctx)
	if !punted || len(r.Question) == 0 || ctx.Value(judgedKey{}) != nil {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	var some [4]applied // more are rare
	of := h.appendApplied(some[:0], o)
	qname := strings.ToLower(r.Question[0].Name)
	if len(of) == 0 || !h.judges(qname) {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	q := &query{ResponseWriter: w, Context: ctx, handler: h, origin: o, request: r, name: qname}
	q.labels, _ = ctx.Value(labelsKey{}).(*labels)
	q.decision = h.decide(of, qname, q.room[:0])
	switch {
	case q.verdict == policy.Allowed:
		q.recordAllowed()
	case h.strict:
		q.recordDenied()
		return q.deny()
	default:
		q.recordNotAllowed()
	}
	switch {
	case q.verdict == policy.Allowed && !h.namesOnly:
		q.foreign = h.forwards != nil && h.forwards.Takes(o, qname, r.Question[0].Qtype)
		w = opener{q}
	case q.verdict != policy.Allowed && !h.observe && explain.Of(ctx) != nil:
		w = unopened{q}
	}
	return plugin.NextOrFailure(name, h.Next, judged{q}, w, r)
}

// applied is a policy that applies to a guest.
type applied struct {
	policy *guestPolicy
	// rules are policy.rules, or those of a Northbound row if policy is Handler.northbound.
	rules *policy.Policy
}

// appendApplied appends the policies of a guest: first the Corefile's, in their order.
func (h *Handler) appendApplied(all []applied, o *origin.Origin) []applied {
	var some [8]int // more are rare
	all = h.appendNumbered(all, h.numbers(some[:0], o))
	for _, rules := range h.northboundOf(o) {
		all = append(all, applied{h.northbound, rules})
	}
	return all
}

// appendNumbered takes indexes in Handler.policies.
func (h *Handler) appendNumbered(all []applied, numbers []int) []applied {
	for _, i := range numbers {
		all = append(all, applied{&h.policies[i], h.policies[i].rules})
	}
	return all
}

// policies returns the policies of the guest. Few queries need them after their decision.
func (q *query) policies() []applied { return q.handler.appendApplied(nil, q.origin) }

func (h *Handler) northboundOf(o *origin.Origin) []*policy.Policy {
	if h.northbound == nil {
		return nil
	}
	if p, ok := o.Attributes.(interface{ Egress() []*policy.Policy }); ok {
		return p.Egress()
	}
	return nil // the guest has no row of OVN
}

func (h *Handler) numbers(some []int, o *origin.Origin) []int {
	some = h.index.AppendAll(some, o)
	slices.Sort(some)
	return some
}

// qname is in lower case.
func (h *Handler) judges(qname string) bool { return plugin.Zones(h.Zones).Matches(qname) != "" }

// Enforces reports whether, and with which settings, the switch enforces the policies.
func (h *Handler) Enforces() (opening.Settings, bool) {
	return h.settings, !h.observe && !h.namesOnly
}

// DeniesNames reports whether names that are not allowed are denied, which needs no switch.
func (h *Handler) DeniesNames() bool { return h.strict }

// ReadsNorthbound reports whether Northbound policies count.
func (h *Handler) ReadsNorthbound() bool { return h.northbound != nil }

// HasLabel reports whether a policy selects guests by the label.
func (h *Handler) HasLabel(name string) bool { return h.index.Has(name) }

// At returns the position of the directive.
func (h *Handler) At() corefile.Position { return h.at }

// query is a guest's query to which policies apply. One allocation serves as context and writer too, as judged, opener and
// unopened.
type query struct {
	dns.ResponseWriter
	context.Context
	handler *Handler
	origin  *origin.Origin
	request *dns.Msg
	name    string // the question's, in lower case
	decision
	// foreign: a server of the tenant answers, which opens nothing.
	foreign bool
	// labels is nil without *metadata*.
	labels *labels
	// room is for the first of entries.
	room [1]*policy.Entry
}

type decision struct {
	verdict policy.Verdict
	// policy is the first that allows the name, else the guest's first, Northbound last. entries are all that allow
	// the name.
	policy  *guestPolicy
	entries []*policy.Entry
}

// decide appends to entries. Policies of a guest add up. qname is in lower case.
func (h *Handler) decide(of []applied, qname string, entries []*policy.Entry) decision {
	d := decision{policy: of[0].policy, entries: entries}
	for _, p := range of {
		v, entries := p.rules.Name(qname, d.entries)
		if v == policy.Allowed && len(d.entries) == 0 {
			d.policy = p.policy
		}
		d.verdict, d.entries = max(d.verdict, v), entries
	}
	if qname == "." {
		d.verdict = policy.Above // NXDOMAIN for the root would deny all names
	}
	return d
}

// deny answers NXDOMAIN, or NOERROR without records if names below are allowed.
func (q *query) deny() (int, error) {
	rcode := dns.RcodeNameError
	if q.verdict == policy.Above {
		rcode = dns.RcodeSuccess
	}
	m := new(dns.Msg).SetRcode(q.request, rcode)
	// The owner of the SOA record is never the root. Its class is IN, and a message has records of one class.
	if q.name != "." && q.request.Question[0].Qclass == dns.ClassINET {
		m = authority.Deny(&request.Request{W: q.ResponseWriter, Req: q.request}, rcode, denialTTL)
		m.Authoritative = false
	}
	authority.AddError(m, q.request, dns.ExtendedErrorCodeFiltered, "")
	if err := q.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(name, err)
	}
	return dns.RcodeSuccess, nil
}
