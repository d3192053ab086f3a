// SPDX-License-Identifier: Apache-2.0

// Package authority gives authoritative answers for names that differ by guest, alike for all plugins with
// such names. It knows neither the origin of the names (package names) nor which names a guest sees.
//
//	plugin: the guest ─► names.Scope ─► lookup ─► Question
//	                                                  │ Policy.Answer
//	                              found ──► reply ◄───┤
//	                                          ▲       └─ route ─┬─ toHere ─► reply
//	                                          │                 ├─ toNext ─► the next plugin
//	                                          │                 └─ toNextUnlessDenied: the
//	                                          └───────── next plugin; reply replaces its
//	                                                     NXDOMAIN
//
// The reply for an alias includes its target (alias.go). A target outside the asker's scope is looked up
// through the server. EmptyZone and Deny answer for zones and names that exist for no guest.
//
// The package has no state, no goroutine and no lock.
package authority

import (
	"context"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Policy has the settings of a server block.
type Policy struct {
	Fall fall.F
	// FallAll is set by fallthrough without zones. Names in the asker's domain then do not fall through.
	FallAll bool
	// Domain completes names without a domain. It is a lower-case FQDN, or empty.
	Domain string
	TTL    uint32 // seconds
	// Shuffle is for addresses.
	Shuffle bool
}

// Plugin identifies a plugin; its address is a context key.
type Plugin struct {
	Name string
	// Answers is by server, view and outcome.
	Answers *metricset.QueryCounter
}

// Asker is the sender of a query.
type Asker struct {
	// Scope must not be zero.
	Scope names.Scope
	// Domain is a lower-case FQDN, or empty.
	Domain string
	// Origin is nil for a query from a socket.
	Origin *origin.Origin
	// Unread: Scope lacks unread networks, so no name can be denied.
	Unread bool
	// Forwards reports whether a plugin behind forwards a lower-case name that Scope lacks. May be nil.
	Forwards func(qname string, qtype uint16) bool
}

// Question is one query, with the records of its name.
type Question struct {
	State request.Request
	Asker Asker
	// Zones are the plugin's, Zone has the name.
	Zones []string
	Zone  string
	// Known and Found are the results of Scope.Lookup.
	Known names.Answer
	Found bool
	// Time is when the names were read, the zone's serial.
	Time time.Time
}

// Answer answers or calls the next plugin, with the rcode and error of plugin.Handler. The name must not be
// the root, whose denial denies all names (RFC 8020).
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
		return dns.RcodeRefused, nil // a denial's SOA record would have another class
	}
	if transfer {
		return dns.RcodeRefused, nil
	}

	m, table := p.reply(&q)
	if q.target() != "" && !p.follow(ctx, q, m) {
		return dns.RcodeServerFailure, nil // CoreDNS would log an error for each query
	}
	switch state.QType() {
	case dns.TypeMX, dns.TypeSRV:
		p.addTargets(m, &q)
	}
	of.setMetadata(ctx, table)
	if explained != nil {
		explainReply(explained, m, table) // not counted
	} else {
		of.Answers.Inc(ctx, outcome(table, m))
	}
	if err := state.W.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(of.Name, err)
	}
	return dns.RcodeSuccess, nil
}

// outcome takes the source of the data.
func outcome(table string, m *dns.Msg) string {
	switch {
	case m.Rcode == dns.RcodeNameError:
		return "nxdomain"
	case len(m.Answer) == 0:
		return "nodata"
	}
	return table
}
