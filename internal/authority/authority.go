// SPDX-License-Identifier: Apache-2.0

// Package authority answers questions about names that differ by who asks, as the authority
// for them. The plugins with such names share it, so that they answer alike. It does not know
// where the names are from (package names has them), nor which of them an asker sees.
//
//	plugin: who asks? ─► names.Scope ─► lookup ─► Question
//	                                                  │ Policy.Answer
//	                              found ──► reply ◄───┤
//	                                          ▲       └─ route ─┬─ toHere ─► reply
//	                                          │                 ├─ toNext ─► the next plugin
//	                                          │                 └─ toNextUnlessDenied: the
//	                                          └───────── next plugin; reply in the place of
//	                                                     its NXDOMAIN
//
// The reply for an alias goes on with its target (alias.go): what of that is not the asker's own
// is looked up through the server.
//
// EmptyZone and Deny answer for zones and names that are the same for all, since nobody has them.
//
// It has no state, no goroutine and no lock.
package authority

import (
	"context"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Policy is what a server block says of its answers.
type Policy struct {
	Fall fall.F
	// FallAll is set by fallthrough without zones: then names of the asker's own domain
	// do not fall through.
	FallAll bool
	// Domain completes the names that come without one; fully qualified and in lower case,
	// or empty.
	Domain string
	TTL    uint32 // seconds
	// Shuffle puts the addresses of each answer in a random order.
	Shuffle bool
}

// Plugin is what a plugin of this project is called in metrics and metadata. Contexts use its
// address as a key.
type Plugin struct {
	Name string
	// Answers counts by server, view and what gave the answer, see outcome.
	Answers *prometheus.CounterVec
}

// Asker is who asks, as far as the answer depends on it.
type Asker struct {
	// Scope has the names that are seen. It must not be the zero one.
	Scope names.Scope
	// Domain is the asker's own, fully qualified and in lower case, or empty.
	Domain string
	// Origin is nil for a query from a socket.
	Origin *origin.Origin
	// Unread is set while Scope lacks networks that are still to be read: no name can be denied.
	Unread bool
	// Forwards reports whether the asker's network has named servers for a name that Scope does
	// not have: a plugin behind this one asks them. The name is in lower case. Nil for none.
	Forwards func(qname string, qtype uint16) bool
}

// Question is one query, and what is known of its name.
type Question struct {
	State request.Request
	Asker Asker
	// Zones are those that the plugin answers for, and Zone is the one that has the name.
	Zones []string
	Zone  string
	// Known is what Scope.Lookup has returned; Found is its report.
	Known names.Answer
	Found bool
	// Time is when the names were read: the serial of the zone.
	Time time.Time
}

// Answer answers a question, or leaves it to the next plugin. The name must not be the root:
// no network has that, and to deny it would deny all names (RFC 8020). Rcode and error are
// those of plugin.Handler.
func (p *Policy) Answer(ctx context.Context, of *Plugin, next plugin.Handler, q Question) (int, error) {
	state := q.State
	q.dropAliasAtApex()
	transfer := isTransfer(state.QType())
	others := transfer || isOfParent(&q.Asker, state.Name(), state.QType())
	explained := explain.Of(ctx)
	if !q.Found || others && !q.Known.OVNOwned {
		to := p.route(&q.Asker, state.Name(), state.QType())
		if explained != nil {
			p.explainRoute(explained, &q, to)
		}
		switch to {
		case toNext:
			return plugin.NextOrFailure(of.Name, next, ctx, state.W, state.Req)
		case toNextUnlessDenied:
			return plugin.NextOrFailure(of.Name, next, ctx, newDenier(p, q), state.Req)
		}
	}
	if c := state.QClass(); c != dns.ClassINET && c != dns.ClassANY {
		return dns.RcodeRefused, nil // even the SOA of a denial would be of another class
	}
	if transfer {
		return dns.RcodeRefused, nil
	}

	m, table := p.reply(&q)
	if q.target() != "" && !p.follow(ctx, q, m) {
		return dns.RcodeServerFailure, nil // an error would be logged for each query
	}
	switch state.QType() {
	case dns.TypeMX, dns.TypeSRV:
		p.addTargets(m, &q)
	}
	of.setMetadata(ctx, table)
	if explained != nil {
		explainReply(explained, m, table) // and it is not counted
	} else {
		of.Answers.WithLabelValues(metrics.WithServer(ctx), metrics.WithView(ctx), outcome(table, m)).Inc()
	}
	if err := state.W.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(of.Name, err)
	}
	return dns.RcodeSuccess, nil
}

// outcome is the label of an answer, of which table is the source if it has data.
func outcome(table string, m *dns.Msg) string {
	switch {
	case m.Rcode == dns.RcodeNameError:
		return "nxdomain"
	case len(m.Answer) == 0:
		return "nodata"
	}
	return table
}
