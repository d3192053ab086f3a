// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/egress/policy"
)

// Values of the label verdict, and of metadata.
const (
	allowed    = "allowed"
	denied     = "denied"      // with strict on
	wouldDeny  = "would-deny"  // with observe on: a name that is not allowed
	wouldClose = "would-close" // with observe on: an answer with an address that would not be opened
)

func (q *query) recordAllowed(d *decision) {
	if x := explain.Of(q.ctx); x != nil {
		x.Notef("policy %s allows the name: %s", d.policy.name, d.entry)
	}
	q.count(d.policy, allowed)
}

func (q *query) recordDenied(d *decision) {
	if x := explain.Of(q.ctx); x != nil {
		q.explain(x, d)
	}
	q.count(d.policy, denied)
	q.log(d.policy, denied, "denies", "")
	if l, ok := q.ctx.Value(labelsKey{}).(*labels); ok {
		l.answer = d.policy.name
	}
}

func (q *query) recordWouldDeny(d *decision) {
	if x := explain.Of(q.ctx); x != nil {
		x.Notef("policy %s would deny the name with strict on", d.policy.name)
	}
	q.count(d.policy, wouldDeny)
	q.log(d.policy, wouldDeny, "would deny", "")
}

func (q *query) recordWouldClose(p *guestPolicy, a netip.Addr) {
	if x := explain.Of(q.ctx); x != nil {
		x.Notef("policy %s would not open the address %s of the answer", p.name, a)
	}
	q.count(p, wouldClose)
	q.log(p, wouldClose, "would not open "+a.String()+" for", a.String())
}

// count counts a verdict and sets metadata. A query that an operator explains is not counted.
func (q *query) count(p *guestPolicy, verdict string) {
	if explain.Of(q.ctx) == nil {
		verdicts.WithLabelValues(metrics.WithServer(q.ctx), metrics.WithView(q.ctx), p.name, verdict).Inc()
	}
	if l, ok := q.ctx.Value(labelsKey{}).(*labels); ok {
		l.policy, l.verdict = p.name, verdict
	}
}

// log logs what a policy does or would do about a name, unless it was logged for this guest, name and address before.
func (q *query) log(p *guestPolicy, verdict, what, address string) {
	o := q.origin
	if explain.Of(q.ctx) != nil || !p.lines.isNew(o, verdict, q.state.Name(), address) {
		return
	}
	network := o.Switch
	if !o.Network.IsZero() {
		network = o.Network.String()
	}
	log.Infof("policy %s %s name %s type %s from port %q network %q", p.name, what, q.state.Name(), dns.Type(q.state.QType()), o.Port, network)
}

// explain adds the finding about a name that is denied.
func (q *query) explain(x *explain.Step, d *decision) {
	said := "does not exist"
	if d.verdict == policy.Above {
		said = "has no records"
	}
	x.Find(explain.Finding{
		Code:   explain.Policy,
		Text:   fmt.Sprintf("an egress policy decides: %s (%s) does not allow %s, and no other policy of the guest does. So the plugin egress says that it %s, and no server is asked", d.policy.name, d.policy.at, q.state.Name(), said),
		Remedy: fmt.Sprintf("if the guest is to have the name, add `allow %s` to the policy at %s", q.state.Name(), d.policy.at),
	})
}

// labels are the metadata of a query. answer is the policy that has denied the name.
type labels struct{ policy, verdict, answer string }

type labelsKey struct{}

// Metadata implements metadata.Provider: the policy, the verdict, and the policy that has denied the name. Each is empty for
// none.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	o, punted := origin.FromContext(ctx)
	if !punted || h.index.Find(o) < 0 {
		return ctx
	}
	l := new(labels)
	metadata.SetValueFunc(ctx, name+"/policy", func() string { return l.policy })
	metadata.SetValueFunc(ctx, name+"/verdict", func() string { return l.verdict })
	metadata.SetValueFunc(ctx, name+"/answer", func() string { return l.answer })
	return context.WithValue(ctx, labelsKey{}, l)
}
