// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"
	"fmt"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"golang.org/x/time/rate"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

const (
	onlyLogged = "log"    // the policy of the zone is log
	signed     = "signed" // the answer is signed, and the client has set DO
)

func (q *query) record(f *hit, action string) {
	explained := explain.Of(q.ctx)
	if explained != nil {
		q.explain(explained, f, action) // not counted
	} else {
		matches.Inc(q.ctx, f.zone.config.Zone, action)
	}
	if l, ok := q.ctx.Value(labelsKey{}).(*labels); ok {
		*l = labels{zone: f.zone.config.Zone, action: action, trigger: f.trigger.String()}
	}
	if h := q.handler; h.lines != nil && explained == nil {
		h.lines.print(func() string { return q.line(f, action) })
	}
}

func (q *query) answers(f *hit) {
	if l, ok := q.ctx.Value(labelsKey{}).(*labels); ok {
		l.answer = f.zone.config.Zone
	}
}

func (q *query) logOnly(all []hit, step string) {
	for i := range all {
		all[i].step = step
		q.record(&all[i], onlyLogged)
	}
}

// rule returns the owner of the rule without the zone, or its prefix.
func (f *hit) rule() string {
	if f.trigger == rules.ResponseIP {
		return f.prefix.String()
	}
	var n rules.Name
	n.Set(f.step)
	return n.Trigger(f.wildcard, f.by)
}

// line returns a log line. It has port and network, since tenants may share addresses.
func (q *query) line(f *hit, action string) string {
	who := ""
	if o, ok := origin.FromContext(q.ctx); ok {
		network := o.Switch
		if !o.Network.IsZero() {
			network = o.Network.String()
		}
		who = fmt.Sprintf(" port %q network %q", o.Port, network)
	}
	return fmt.Sprintf("zone %s action %s %s %s name %s type %s from %s%s",
		f.zone.config.Zone, action, f.trigger, f.rule(), q.state.QName(), dns.Type(q.state.QType()), q.state.IP(), who)
}

type hitLog struct{ limit *rate.Limiter }

func newHitLog(perSecond int) *hitLog {
	return &hitLog{rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

func (l *hitLog) print(line func() string) {
	if l.limit.Allow() {
		log.Info(line())
	} else {
		linesDropped.Inc()
	}
}

// labels are the metadata of a query. answer is the zone that made the answer.
type labels struct{ zone, action, trigger, answer string }

type labelsKey struct{}

// Metadata implements metadata.Provider: the last rule, and the zone that made the answer.
func (*Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	l := new(labels)
	metadata.SetValueFunc(ctx, name+"/zone", func() string { return l.zone })
	metadata.SetValueFunc(ctx, name+"/action", func() string { return l.action })
	metadata.SetValueFunc(ctx, name+"/trigger", func() string { return l.trigger })
	metadata.SetValueFunc(ctx, name+"/answer", func() string { return l.answer })
	return context.WithValue(ctx, labelsKey{}, l)
}
