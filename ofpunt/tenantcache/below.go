// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"hash/maphash"
	"net"
	"reflect"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/coredns/coredns/plugin/pkg/response"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// below gets the queries that *cache* has no answer to. It gives them to the next plugin, or to
// the handler that a plugin above *cache* has routed them to (internal/cachekey).
type below struct {
	cache *Cache
	next  plugin.Handler
}

// Name implements plugin.Handler.
func (*below) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *below) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	q, prefetch := queryOf(ctx), isPrefetch(w)
	if q != nil && q.peeking {
		return dns.RcodeSuccess, nil // as if there were an answer, of which nothing is stored
	}
	background := q != nil && q.isLeftBy(ctx)
	if prefetch || background {
		// Nothing may be resumed: the guest gets its answer from cache.
		ctx = h.cache.detach(ctx)
	}
	next := h.next
	if routed := cachekey.HandlerOf(ctx); routed != nil {
		next = routed
	}
	if q == nil || q.cache != h.cache {
		return plugin.NextOrFailure(name, next, ctx, w, r)
	}
	o, punted := origin.FromContext(ctx)
	x := &run{Context: ctx, ResponseWriter: w, query: q, lookup: punted && o.Lookup, reason: q.reason}
	if background && !prefetch || prefetch && q.reads != 0 {
		// The guest's writer may serve another query by now, and the writer of a prefetch has no addresses.
		x.remote, x.local = q.remote, q.local
	}
	x.observe(prefetch)
	if q.prefix != "" {
		r = withName(r, q.name)
	}
	code, err := plugin.NextOrFailure(name, next, x, x, r)
	x.publish()
	x.settle(code, err)
	return code, err
}

// isPrefetch reports whether no client waits for the answer to w: *cache* asks again before an entry expires,
// with a writer that has no addresses.
func isPrefetch(w dns.ResponseWriter) bool {
	a, ok := w.LocalAddr().(*net.TCPAddr)
	return ok && a.IP == nil
}

// isLeftBy reports whether ctx is the context of work that *cache* does beside the query, and that goes on
// when the query has its answer: a prefetch, or serve_stale with verify and a timeout. *cache* gives such
// work other labels.
func (q *query) isLeftBy(ctx context.Context) bool {
	labelsOf := func(ctx context.Context) uintptr { return reflect.ValueOf(metadata.ValueFuncs(ctx)).Pointer() }
	return labelsOf(ctx) != labelsOf(q.Context)
}

// settle ends the run. The labels and addresses that it has read count even without an answer: *cache* stores
// a failure then.
func (x *run) settle(code int, err error) {
	if x.written {
		return
	}
	reason := x.verdict()
	if err == nil || code != dns.RcodeServerFailure {
		return
	}
	if reason == "" {
		reason = x.enter(dnsutil.MinimalDefaultTTL)
	}
	if reason != "" {
		x.count(reason)
		x.query.failed.Store(true)
	}
}

// WriteMsg implements dns.ResponseWriter. It has *cache* not store an answer that is not for
// others: it sets TC in it, since *cache* stores no truncated answer, and query restores TC.
func (x *run) WriteMsg(m *dns.Msg) error {
	x.written = true
	x.publish() // *cache* reads zone/wildcard
	if x.lookup && m.Rcode == dns.RcodeSuccess && len(m.Answer)+len(m.Ns) == 0 {
		x.refuse(reasonLookup) // origin.Resume has answered
	}
	reason := x.verdict()
	life, storable := x.life(m)
	if storable && reason == "" {
		reason = x.enter(life)
	}
	q := x.query
	m = withErrorsRecord(prefixed(m, q.prefix, q.name))
	if reason != "" {
		if storable {
			x.count(reason)
			x.supersede(reason)
		}
		q.truncated.Store(m.Truncated)
		q.marked.Store(true)
		c := *m
		c.Truncated = true
		m = &c
	}
	return x.ResponseWriter.WriteMsg(m)
}

// supersede has *cache* no longer serve an answer which it has stored for the query, after another
// one that it is not to store: with serve_stale it would keep the old one.
func (x *run) supersede(reason string) {
	q := x.query
	c := q.cache
	if c.settings.stale > 0 && reason != reasonPassed && c.quota.drop(c.quotaKey(q), c.now()) {
		c.vary.supersede(q.question)
	}
}

// life returns for how long an answer can be served. It reports whether *cache* stores it.
func (x *run) life(m *dns.Msg) (life time.Duration, ok bool) {
	c := x.query.cache
	kind, _ := response.Typify(m, c.now().UTC())
	switch kind {
	case response.OtherError, response.Meta, response.Update:
		return 0, false
	}
	return dnsutil.MinimalTTLWithMaximum(m, kind, c.settings.ttl) + c.settings.stale, !m.Truncated
}

// enter counts an answer in the quota before *cache* stores it. It returns reasonShare if *cache* must not
// store the answer.
func (x *run) enter(life time.Duration) (reason string) {
	q := x.query
	c := q.cache
	network := ""
	if o, punted := origin.FromContext(x.Context); punted {
		network = networkOf(o)
	}
	if c.quota.store(c.quotaKey(q), network, c.now(), life) {
		return ""
	}
	return reasonShare
}

// quotaKey returns the hash of what the key of *cache* has.
func (c *Cache) quotaKey(q *query) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.Write([]byte{q.flags, byte(q.question.qtype >> 8), byte(q.question.qtype), byte(q.question.qclass >> 8), byte(q.question.qclass)})
	_, _ = h.WriteString(q.prefix)
	_, _ = h.WriteString(q.question.name)
	return h.Sum64()
}

// count counts that an answer is not stored.
func (x *run) count(reason string) {
	if reason == reasonPassed {
		return
	}
	metric.CacheUnstored.WithLabelValues(metrics.WithServer(x.Context), metrics.WithView(x.Context), reason).Inc()
}
