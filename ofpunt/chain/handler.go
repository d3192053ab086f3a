// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net/netip"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// Handler stands first in the chain of a server block with ofpunt. It distinguishes a guest's own question
// from the lookups of plugins, and gives the plugins behind it metadata, the metric of durations, and
// readiness. It answers nothing itself, except that it refuses zone transfers in a block without *transfer*.
//
// NewBlock sets labels, notReady and block, and [Compile] the other fields, before the first query.
type Handler struct {
	Next plugin.Handler

	// labels are the labels that the block reads, and notReady returns why bridges are not served.
	labels   []label.Label
	notReady func() []string
	// block is the server block, nil for the Handler behind all blocks of hijack mode, which gets the
	// queries that no block takes.
	block *Block

	// taken is what the exchange of a query learns of the block.
	taken punt.Block
	// transfers is set in service mode if the block has *transfer*. Hijack mode punts no TCP, and
	// *transfer* answers over TCP only.
	transfers bool
	// resolvers are the resolver addresses that the Corefile names for all guests.
	resolvers []netip.Addr
	// duration is the histogram of the answers of the block's view.
	duration prometheus.Observer
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ResolverAddresses returns the addresses that the Corefile names for all guests to ask at. They
// are known once the servers are compiled.
func (h *Handler) ResolverAddresses() []netip.Addr { return h.resolvers }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x, punted := punt.FromContext(ctx)
	explained := explain.Of(ctx)
	if explained != nil && h.block != nil {
		explained.Take(h.block.describe(), metrics.WithView(ctx))
	}
	if !punted || r != x.Request() {
		if o, ok := origin.FromContext(ctx); ok && punted {
			ctx = newLookupContext(ctx, o)
		}
		tenantcache.MarkLookup(ctx)
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if h.block != nil {
		x.SetBlock(&h.taken)
	}
	if !h.transfers && isTransfer(r) {
		x.RefuseTransfer()
		return dns.RcodeSuccess, nil // there is no more to write
	}
	code, err := plugin.NextOrFailure(name, h.Next, ctx, w, r)
	if explained != nil {
		explained.Fail(err)
		return code, err
	}
	h.duration.Observe(time.Since(x.Arrived()).Seconds())
	return code, err
}

// Metadata implements metadata.Provider: the origin of a punted query, by the labels that the
// block names.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	o, ok := origin.FromContext(ctx)
	if !ok {
		return ctx
	}
	for i := range h.labels {
		l := &h.labels[i]
		metadata.SetValueFunc(ctx, l.Name, func() string { return l.Value(o) })
	}
	return ctx
}

// Ready implements ready.Readiness. It reports whether all bridges of the process are served:
// the plugin ready has one result for all handlers of a name.
func (h *Handler) Ready() bool { return len(h.NotReady()) == 0 }

// NotReady implements ready.Explainer.
func (h *Handler) NotReady() []string { return h.notReady() }
