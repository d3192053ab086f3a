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

// Around cache stand two handlers of our own, since an answer must not reach another
// asker that depends on who has asked. A plugin below cache may put together its
// answer from a lookup, as file and template do with the target of a CNAME. That goes
// through the server once more, past ovnhosts and by views, and finds what the asker
// may see. The answer is not kept then. What the lookup itself finds is, where that
// passes a cache, so that hardly anything is asked twice; but not the empty answer that
// a lookup gets at the end of the chain, where a guest's own question is resumed.

// sharing is the way of a query through cache, as the context and the writer that
// cache gets.
type sharing struct {
	context.Context
	dns.ResponseWriter
	// unshared is set once the answer is not to be kept, and then truncated is its TC.
	unshared, truncated atomic.Bool
}

type sharingKey struct{}

// Value implements context.Context.
func (s *sharing) Value(key any) any {
	if _, ok := key.(sharingKey); ok {
		return s
	}
	return s.Context.Value(key)
}

// sharingOf returns the nearest sharing of ctx, or nil.
func sharingOf(ctx context.Context) *sharing {
	s, _ := ctx.Value(sharingKey{}).(*sharing)
	return s
}

// WriteMsg implements dns.ResponseWriter.
func (s *sharing) WriteMsg(m *dns.Msg) error {
	if s.unshared.Load() {
		m.Truncated = s.truncated.Load()
	}
	return s.ResponseWriter.WriteMsg(m)
}

// aboveCache begins a sharing.
type aboveCache struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*aboveCache) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *aboveCache) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	s := &sharing{Context: ctx, ResponseWriter: w}
	return plugin.NextOrFailure(name, h.next, s, s, r)
}

// belowCache gets what cache does not have.
type belowCache struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*belowCache) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *belowCache) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if o, ok := origin.FromContext(ctx); ok && prefetched(w) {
		// It is no more the guest's than a lookup: the guest gets what cache has.
		ctx = newLookupContext(ctx, o)
	}
	if s := sharingOf(ctx); s != nil {
		o, punted := origin.FromContext(ctx)
		w = &notKept{ResponseWriter: w, sharing: s, lookup: punted && o.Lookup}
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// prefetched reports whether nobody waits for what is written to w: cache asks for
// what is about to expire with a writer that has no addresses.
func prefetched(w dns.ResponseWriter) bool {
	a, ok := w.LocalAddr().(*net.TCPAddr)
	return ok && a.IP == nil
}

// notKept keeps cache from keeping an answer that is not for others: it keeps none that
// is truncated.
type notKept struct {
	dns.ResponseWriter
	sharing *sharing
	// lookup is set for the question of a plugin.
	lookup bool
}

// WriteMsg implements dns.ResponseWriter.
func (w *notKept) WriteMsg(m *dns.Msg) error {
	if w.lookup && m.Rcode == dns.RcodeSuccess && len(m.Answer)+len(m.Ns) == 0 {
		w.sharing.unshared.Store(true) // as of origin.Resume
	}
	if w.sharing.unshared.Load() {
		w.sharing.truncated.Store(m.Truncated)
		c := *m
		c.Truncated = true
		m = &c
	}
	return w.ResponseWriter.WriteMsg(m)
}
