// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"fmt"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
)

// explain answers with the entry of *cache*, if any, and compares the answer of the plugins below. Reading the
// entry stores nothing, but counts as a request and as a hit or miss.
func (h *above) explain(ctx context.Context, x *explain.Step, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	stored := h.look(ctx, x, w, r)
	onward := h.onward
	if routed := cachekey.HandlerOf(ctx); routed != nil {
		onward = routed
	}
	if stored == nil {
		return plugin.NextOrFailure(name, onward, ctx, w, r)
	}
	c := x.Enter("cache")
	c.Notef("has an entry, which the guest gets: %s%s; the plugins below say what a new query would get", explain.Content(stored), lifeOf(stored))
	err := w.WriteMsg(stored)
	c.End()
	below := &lookWriter{ResponseWriter: w, first: x.WouldAnswer}
	_, _ = plugin.NextOrFailure(name, onward, ctx, below, r) // the guest gets the entry in any case
	if below.answer != nil {
		x.Cached(stored, below.answer)
	}
	return dns.RcodeSuccess, err
}

// look returns *cache*'s answer, or nil and records the reason.
func (h *above) look(ctx context.Context, x *explain.Step, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	look := &lookWriter{ResponseWriter: w}
	q := &query{Context: ctx, ResponseWriter: look, cache: h.cache, edns: r.IsEdns0() != nil, peeking: true}
	o, _ := origin.FromContext(ctx)
	switch {
	case r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 || !q.ask(ctx, r):
		x.Leave("cache", "not for this name: the plugins below answer")
	case o != nil && o.Lookup:
		x.Leave("cache", "left out of a lookup that a plugin makes")
	case h.cache.settings.refreshes:
		x.Leave("cache", "not looked at, since a look may count towards prefetch and serve_stale: the plugins below answer")
	default:
		asked := r
		if q.prefix != "" {
			asked = withName(r, q.prefix+q.name)
		}
		_, _ = h.next.ServeDNS(q, q, asked) // only the written answer counts
		if look.answer == nil {
			x.Leave("cache", "has no entry: the plugins below answer")
		}
	}
	return look.answer
}

type lookWriter struct {
	dns.ResponseWriter
	// first, if not nil, is called at the first answer.
	first  func()
	answer *dns.Msg
}

func (w *lookWriter) WriteMsg(m *dns.Msg) error {
	if w.first != nil && w.answer == nil {
		w.first()
	}
	w.answer = m.Copy()
	return nil
}

func lifeOf(m *dns.Msg) string {
	for _, rr := range append(slices.Clone(m.Answer), m.Ns...) {
		return fmt.Sprintf(", for %d s", rr.Header().Ttl)
	}
	return ""
}
