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

// explain goes past *cache*, and says what *cache* would answer. The query that looks there stores
// nothing: it does not get to the plugins below. *cache* counts it, as a request and as a hit or a
// miss.
func (h *above) explain(ctx context.Context, x *explain.Step, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	look, below := &lookWriter{ResponseWriter: w}, &keepWriter{ResponseWriter: w}
	q := &query{Context: ctx, ResponseWriter: look, cache: h.cache, looking: true}
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
		_, _ = h.next.ServeDNS(q, q, asked) // what it writes is all that counts
		if m := look.answer; m != nil {
			x.Leave("cache", "has an entry, which the guest gets: "+explain.Content(m)+lifeOf(m)+"; the plugins below say what a new query would get")
		} else {
			x.Leave("cache", "has no entry: the plugins below answer")
		}
	}
	onward := h.onward
	if routed := cachekey.HandlerOf(ctx); routed != nil {
		onward = routed
	}
	code, err := plugin.NextOrFailure(name, onward, ctx, below, r)
	if look.answer != nil && below.answer != nil {
		x.Cached(look.answer, below.answer)
	}
	return code, err
}

// keepWriter keeps a copy of what passes.
type keepWriter struct {
	dns.ResponseWriter
	answer *dns.Msg
}

// WriteMsg implements dns.ResponseWriter.
func (w *keepWriter) WriteMsg(m *dns.Msg) error {
	w.answer = m.Copy() // the plugins above may change it
	return w.ResponseWriter.WriteMsg(m)
}

// lookWriter keeps an answer.
type lookWriter struct {
	dns.ResponseWriter
	answer *dns.Msg
}

// WriteMsg implements dns.ResponseWriter.
func (w *lookWriter) WriteMsg(m *dns.Msg) error {
	w.answer = m.Copy()
	return nil
}

// lifeOf says for how long the first record of an answer is valid.
func lifeOf(m *dns.Msg) string {
	for _, rr := range append(slices.Clone(m.Answer), m.Ns...) {
		return fmt.Sprintf(", for %d s", rr.Header().Ttl)
	}
	return ""
}
