// SPDX-License-Identifier: Apache-2.0

// Package ofpunt is the CoreDNS plugin that takes its queries from an Open
// vSwitch bridge instead of a socket: flows punt each DNS packet of a guest to
// this process (an OpenFlow packet-in), the server blocks that name the bridge
// answer it, and the answer returns through the port it came from (a
// packet-out).
//
// The package makes the servers of a Corefile and keeps the bridges. What stands in the
// switch is the affair of package flows, what becomes of a punted packet that of package
// punt.
//
// # The life of a bridge
//
// The first server that names a bridge starts it, and it lives on through reloads until no
// server names it (registry). It keeps one session after the other, a session being one
// OpenFlow connection.
//
//	Corefile ──use──► bridge ──connect──► session ──Want (desired.go)──► flows.Holder
//	                    ▲ │                  ▲ │                              │
//	local database ─────┘ └─ports.Owners─────┘ └────────────◄─ Report (report.go)
//	(localwatch.go)                                  log, metrics, readiness
//
// Goroutines of a bridge: run keeps the sessions, and within one it is the owner of the
// flows (session.keep): it alone calls the Holder, desired and reporter. The reader of the
// connection calls session.handler and must not block. followLocal reads the local
// database, settle waits for one barrier a view, and a session that a reload replaces
// lingers on one of its own (retire).
//
// Locks: registry.mu guards which bridges there are; bridge.mu guards who reads the local
// database. The way of a query takes neither: who answers, the connection and the owners
// of ports are read from atomic pointers.
package ofpunt

import (
	"context"
	"strconv"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

const name = "ofpunt"

var log = clog.NewWithPlugin(name)

// Handler stands first in the chain of a server block with ofpunt. It tells the
// guest's own question from the lookups of plugins, lets everything pass, and tells
// metadata, metrics and ready of the punt.
type Handler struct {
	Next plugin.Handler

	// recursive is set where the block sends on what it does not know, so that its
	// answers have RA. The punt server sets it before the first query.
	recursive bool
	// beyond is set behind all blocks, where a query comes that none of them takes.
	beyond bool
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x, punted := punt.FromContext(ctx)
	if !punted || r != x.Request() {
		if o, ok := origin.FromContext(ctx); ok && punted {
			ctx = newLookupContext(ctx, o)
		}
		// Below a cache there is nothing but lookups.
		if s := sharingOf(ctx); s != nil {
			s.unshared.Store(true)
		}
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if !h.beyond {
		x.SetRecursive(h.recursive)
	}
	code, err := plugin.NextOrFailure(name, h.Next, ctx, w, r)
	serverOf(ctx).duration(metrics.WithView(ctx)).Observe(time.Since(x.Arrived()).Seconds())
	return code, err
}

// Metadata implements metadata.Provider: the origin of a punted query, for view,
// log, rewrite and template.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	o, ok := origin.FromContext(ctx)
	if !ok {
		return ctx
	}
	for i := range labels {
		l := &labels[i]
		metadata.SetValueFunc(ctx, l.name, func() string { return l.value(o) })
	}
	return ctx
}

// labels have their whole name, as each query sets them all.
var labels = [...]struct {
	name  string
	value func(*origin.Origin) string
}{
	{name + "/bridge", func(o *origin.Origin) string { return o.Bridge }},
	{name + "/in-port", func(o *origin.Origin) string { return strconv.FormatUint(uint64(o.InPort), 10) }},
	{name + "/port", func(o *origin.Origin) string { return o.Port }},
	{name + "/switch", func(o *origin.Origin) string { return o.Switch }},
	{name + "/vlan", func(o *origin.Origin) string { return strconv.Itoa(int(o.VLAN)) }},
	{name + "/client-mac", func(o *origin.Origin) string { return o.MAC.String() }},
	{name + "/destination", func(o *origin.Origin) string { return o.Destination.String() }},
}

// Ready implements ready.Readiness. The ready plugin keeps one answer by plugin
// name, so that every handler answers for all bridges of the process.
func (*Handler) Ready() bool { return bridges.ready() }

// NotReady implements ready.Explainer.
func (*Handler) NotReady() []string { return bridges.notReady() }
