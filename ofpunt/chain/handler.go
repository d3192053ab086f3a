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

// Handler is the first handler of a server block with ofpunt. It separates a guest's question from lookups of plugins,
// provides metadata, readiness and durations, and refuses zone transfers in a block without *transfer*.
//
// NewBlock sets labels, notReady and block, [Compile] the others.
type Handler struct {
	Next plugin.Handler

	labels   []label.Label
	notReady func() []string
	// block is nil for the Handler of hijack mode without a block.
	block *Block

	taken punt.Block
	// transfers is set in service mode with *transfer*. Hijack mode punts no TCP, and *transfer* answers only over
	// TCP.
	transfers bool
	// resolvers are the Corefile's resolver addresses for all guests.
	resolvers []netip.Addr
	duration  prometheus.Observer
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ResolverAddresses returns the resolver addresses that the Corefile gives all guests. Valid after [Compile].
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
			x.LeaveReader() // the lookup's context has no exchange
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
		return dns.RcodeSuccess, nil // RefuseTransfer has written the answer
	}
	code, err := plugin.NextOrFailure(name, h.Next, ctx, w, r)
	if explained != nil {
		explained.Fail(err)
		return code, err
	}
	h.duration.Observe(time.Since(x.Arrived()).Seconds())
	return code, err
}

// Metadata implements metadata.Provider for the labels that the block names.
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

// Ready implements ready.Readiness for all bridges: *ready* has one result for all handlers of a name.
func (h *Handler) Ready() bool { return len(h.NotReady()) == 0 }

// NotReady implements ready.Explainer.
func (h *Handler) NotReady() []string { return h.notReady() }
