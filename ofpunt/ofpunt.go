// SPDX-License-Identifier: Apache-2.0

// Package ofpunt is the CoreDNS plugin that takes its queries from an Open
// vSwitch bridge instead of a socket: flows punt each DNS packet of a guest to
// this process (an OpenFlow packet-in), the server blocks that name the bridge
// answer it, and the answer returns through the port it came from (a
// packet-out).
//
// A punted query goes: session (the connection), admission, query, the
// dnsserver.Server, this plugin and the rest of the chain, reply. A punted segment of
// TCP goes: session, admission, query, segment, the package tcp; what its connection
// brings goes: stream, admission, query and so on.
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
)

const name = "ofpunt"

var log = clog.NewWithPlugin(name)

// Handler stands first in the chain of a server block with ofpunt. It lets
// everything pass, and tells metadata, metrics and ready of the punt.
type Handler struct {
	Next plugin.Handler
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	q, punted := ctx.Value(queryKey{}).(*query)
	code, err := plugin.NextOrFailure(name, h.Next, ctx, w, r)
	if punted {
		q.server.duration(metrics.WithView(ctx)).Observe(time.Since(q.arrived).Seconds())
	}
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
