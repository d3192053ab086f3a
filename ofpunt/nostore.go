// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// Two handlers of our own stand around cache, so that it does not store an answer that depends
// on who has asked. A plugin below cache may put together its answer from a lookup, as file and
// template do with the target of a CNAME. The lookup goes through the server once more, past
// ovnhosts and by views, and finds what the asker may see. Such an answer is not stored. What
// the lookup itself finds is, where that passes a cache, so that hardly anything is asked
// twice; but not the empty answer that a lookup gets at the end of the chain, where a guest's
// own question is resumed.

// cacheQuery is one query to cache. It is the context and the writer that cache gets.
type cacheQuery struct {
	context.Context
	dns.ResponseWriter
	// noStore is set once the answer is not to be stored; from then on truncated is its TC.
	noStore, truncated atomic.Bool
}

type cacheQueryKey struct{}

// Value implements context.Context.
func (s *cacheQuery) Value(key any) any {
	if _, ok := key.(cacheQueryKey); ok {
		return s
	}
	return s.Context.Value(key)
}

// cacheQueryOf returns the innermost cacheQuery of ctx, nil if it has none.
func cacheQueryOf(ctx context.Context) *cacheQuery {
	s, _ := ctx.Value(cacheQueryKey{}).(*cacheQuery)
	return s
}

// WriteMsg implements dns.ResponseWriter.
func (s *cacheQuery) WriteMsg(m *dns.Msg) error {
	if s.noStore.Load() {
		m.Truncated = s.truncated.Load()
	}
	return s.ResponseWriter.WriteMsg(m)
}

// aboveCache gives cache a cacheQuery.
type aboveCache struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*aboveCache) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *aboveCache) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	s := &cacheQuery{Context: ctx, ResponseWriter: w}
	return plugin.NextOrFailure(name, h.next, s, s, r)
}

// belowCache gets the queries that cache has no answer to.
type belowCache struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*belowCache) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *belowCache) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if o, ok := origin.FromContext(ctx); ok && isPrefetch(w) {
		// Nothing may be resumed: the guest has got its answer from cache.
		ctx = newLookupContext(ctx, o)
	}
	if s := cacheQueryOf(ctx); s != nil {
		o, punted := origin.FromContext(ctx)
		w = &noStoreWriter{ResponseWriter: w, query: s, lookup: punted && o.Lookup}
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// isPrefetch reports whether nobody waits for what is written to w: cache asks for
// what is about to expire with a writer that has no addresses.
func isPrefetch(w dns.ResponseWriter) bool {
	a, ok := w.LocalAddr().(*net.TCPAddr)
	return ok && a.IP == nil
}

// noStoreWriter has cache not store an answer that is not for others. It sets TC in it, since
// cache stores no truncated answer; cacheQuery restores TC.
type noStoreWriter struct {
	dns.ResponseWriter
	query *cacheQuery
	// lookup is set if a plugin asks, and not a guest.
	lookup bool
}

// WriteMsg implements dns.ResponseWriter.
func (w *noStoreWriter) WriteMsg(m *dns.Msg) error {
	if w.lookup && m.Rcode == dns.RcodeSuccess && len(m.Answer)+len(m.Ns) == 0 {
		w.query.noStore.Store(true) // origin.Resume has answered
	}
	if w.query.noStore.Load() {
		w.query.truncated.Store(m.Truncated)
		c := *m
		c.Truncated = true
		m = &c
	}
	return w.ResponseWriter.WriteMsg(m)
}
