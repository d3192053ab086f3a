// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
)

// Values of the label verdict, and of metadata.
const (
	allowed    = "allowed"
	denied     = "denied"      // by strict on or names
	closed     = "closed"      // an address of the answer is not opened
	failed     = "failed"      // SERVFAIL: the switch has not opened the addresses
	wouldDeny  = "would-deny"  // observe on: the name is not allowed
	wouldClose = "would-close" // observe on: an address would not be opened
	notAllowed = "not-allowed" // the name is answered, but opens nothing
)

func (q *query) recordAllowed() {
	if x := explain.Of(q.Context); x != nil {
		for _, p := range q.policies() {
			if _, entries := p.rules.Name(q.name, nil); len(entries) > 0 {
				x.Notef("policy %s allows the name: %s", strings.TrimSpace(p.policy.name+" "+p.rules.At), joined(entries))
			}
		}
	}
	q.count(allowed)
}

func (q *query) recordDenied() {
	if x := explain.Of(q.Context); x != nil {
		q.explain(x)
	}
	q.count(denied)
	q.log(denied, "denies", "")
	if q.labels != nil {
		q.labels.answer = q.policy.name
	}
}

// recordNotAllowed is for an answered name.
func (q *query) recordNotAllowed() {
	verdict, what := notAllowed, "opens no address for"
	if q.handler.observe {
		verdict, what = wouldDeny, "would deny"
	}
	if x := explain.Of(q.Context); x != nil {
		x.Notef("policy %s %s the name", q.policy.name, what)
	}
	if q.handler.observe && explain.Of(q.Context) == nil {
		for _, p := range q.policies() {
			if p.policy.names != nil { // nil for Northbound
				p.policy.names.add(q.name)
			}
		}
	}
	q.count(verdict)
	q.log(verdict, what, "")
}

// recordClosed is for an address that an allowed name does not open.
func (q *query) recordClosed(a netip.Addr) {
	verdict, what := closed, "does not open"
	if q.handler.observe {
		verdict, what = wouldClose, "would not open"
	}
	if x := explain.Of(q.Context); x != nil {
		x.Notef("policy %s %s the address %s of the answer", q.policy.name, what, a)
	}
	q.count(verdict)
	q.log(verdict, what+" "+a.String()+" for", a.String())
}

func (q *query) recordFailed(err error) {
	if x := explain.Of(q.Context); x != nil {
		x.Find(explain.Finding{Code: api.CodeEgressFailed, Text: fmt.Sprintf("egress (%s) answers SERVFAIL: %v", q.handler.at, err)})
	}
	q.count(failed)
	q.log(failed, fmt.Sprintf("has no open address (%v) for", err), "")
}

func (q *query) recordOpened(to []opening.Destination) {
	switch x := explain.Of(q.Context); {
	case x != nil && len(to) > 0:
		x.Notef("the answer would open %s", joined(to))
	case x == nil && q.labels != nil:
		q.labels.opened = slices.Clone(to) // to is on the stack
	}
}

// joined returns entries or destinations in the syntax of a Corefile.
func joined[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.String()
	}
	return strings.Join(texts, " ")
}

// count does not count a query that an operator explains.
func (q *query) count(verdict string) {
	if explain.Of(q.Context) == nil {
		verdicts.Inc(q.Context, q.policy.name, verdict)
	}
	if q.labels != nil {
		q.labels.policy, q.labels.verdict = q.policy.name, verdict
	}
}

// log logs a verdict once per guest, name and address.
func (q *query) log(verdict, what, address string) {
	o := q.origin
	if explain.Of(q.Context) != nil || !q.policy.lines.isNew(o, verdict, q.name, address) {
		return
	}
	network := o.Switch
	if !o.Network.IsZero() {
		network = o.Network.String()
	}
	log.Infof("policy %s %s name %s type %s from port %q network %q", q.policy.name, what, q.name, dns.Type(q.request.Question[0].Qtype), o.Port, network)
}

func (q *query) explain(x *explain.Step) {
	said := "does not exist"
	if q.verdict == policy.Above {
		said = "has no records"
	}
	x.Find(explain.Finding{
		Code:   api.CodePolicy,
		Text:   fmt.Sprintf("an egress policy decides: %s (%s) does not allow %s, and no other policy of the guest does. So the plugin egress says that it %s, and no server is asked", q.policy.name, q.where(), q.name, said),
		Remedy: "if the guest is to have the name, " + q.policy.toAllow(q.name),
	})
}

func (q *query) explainNotAllowed(x *explain.Step) {
	x.Find(explain.Finding{
		Code:   api.CodeNotOpened,
		Text:   fmt.Sprintf("the answer opens no address: the egress policy %s (%s) does not allow %s, and no other policy of the guest does", q.policy.name, q.where(), q.name),
		Remedy: "if the guest is to reach the name, " + q.policy.toAllow(q.name),
	})
}

// explainClosed is for an answer to an allowed name with closed addresses alone.
func (q *query) explainClosed(x *explain.Step, a netip.Addr) {
	why := cmp.Or(q.closedBecause(a), "its record is of another name than the question and its aliases")
	if q.foreign {
		why = "a server of the tenant has answered"
	}
	f := explain.Finding{
		Code:   api.CodeNotOpened,
		Text:   fmt.Sprintf("the answer opens no address: egress (%s) keeps %s closed, as %s", q.handler.at, a, why),
		Remedy: "see whether the name is to have this address",
	}
	if address.IsSpecial(a) {
		f.Remedy += fmt.Sprintf("; if the guest is to reach it, give a policy in egress `allow %s`", a)
	}
	x.Find(f)
}

// where returns the line of q.policy, or the rows of the Northbound policies.
func (q *query) where() string {
	if q.policy.rules != nil {
		return q.policy.at.String()
	}
	var rows []string
	for _, rules := range q.handler.northboundOf(q.origin) {
		rows = append(rows, rules.At)
	}
	return strings.Join(rows, ", ")
}

func (p *guestPolicy) toAllow(name string) string {
	if p.rules == nil {
		return fmt.Sprintf("add %s to %s of its port, of its switch or of a port group that it is in", name, northboundName)
	}
	return fmt.Sprintf("add `allow %s` to the policy at %s", name, p.at)
}

// labels are the metadata of a query. answer is the policy that denied the name.
type labels struct {
	policy, verdict, answer string
	opened                  []opening.Destination
}

const mostOpened = 16

func (l *labels) openedText() string {
	if more := len(l.opened) - mostOpened; more > 0 {
		return fmt.Sprintf("%s and %d more", joined(l.opened[:mostOpened]), more)
	}
	return joined(l.opened)
}

type labelsKey struct{}

// Metadata implements metadata.Provider. Labels are empty for none.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	o, punted := origin.FromContext(ctx)
	if !punted || h.index.Find(o) < 0 && len(h.northboundOf(o)) == 0 {
		return ctx
	}
	l := new(labels)
	metadata.SetValueFunc(ctx, name+"/policy", func() string { return l.policy })
	metadata.SetValueFunc(ctx, name+"/verdict", func() string { return l.verdict })
	metadata.SetValueFunc(ctx, name+"/answer", func() string { return l.answer })
	metadata.SetValueFunc(ctx, name+"/opened", l.openedText)
	return context.WithValue(ctx, labelsKey{}, l)
}
