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
	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/coredns/coredns/plugin/pkg/response"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// below passes queries without an answer in *cache* to the next plugin, or to cachekey.Route's handler.
type below struct {
	cache *Cache
	next  plugin.Handler
}

func (*below) Name() string { return name }

func (h *below) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	q, prefetch := queryOf(ctx), isPrefetch(w)
	if q != nil && q.peeking {
		return dns.RcodeSuccess, nil // *cache* then stores nothing
	}
	background := q != nil && q.isLeftBy(ctx)
	if prefetch || background {
		// The guest's answer is from *cache*: resume no packet.
		ctx = h.cache.detach(ctx)
	} else if h.cache.miss != nil {
		h.cache.miss(ctx)
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
		// The guest's writer may serve another query, and a prefetch writer has no addresses.
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

func isPrefetch(w dns.ResponseWriter) bool {
	a, ok := w.LocalAddr().(*net.TCPAddr)
	return ok && a.IP == nil
}

// isLeftBy reports whether *cache* makes a lookup that may outlive the query, with other labels: a prefetch, or
// serve_stale with verify and a timeout.
func (q *query) isLeftBy(ctx context.Context) bool {
	labelsOf := func(ctx context.Context) uintptr { return reflect.ValueOf(metadata.ValueFuncs(ctx)).Pointer() }
	return labelsOf(ctx) != labelsOf(q.Context)
}

// settle counts labels and addresses even without an answer, as *cache* stores failures.
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

// WriteMsg implements dns.ResponseWriter. TC keeps an answer for one guest out of *cache*, until query restores TC.
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

// supersede invalidates the stored answer, which *cache* would keep with serve_stale.
func (x *run) supersede(reason string) {
	q := x.query
	c := q.cache
	if c.settings.stale > 0 && reason != reasonPassed && c.quota.drop(c.quotaKey(q), c.now()) {
		c.vary.supersede(q.question)
	}
}

// life is how long an answer can be served. ok is false if *cache* does not store it.
func (x *run) life(m *dns.Msg) (life time.Duration, ok bool) {
	c := x.query.cache
	kind, _ := response.Typify(m, c.now().UTC())
	switch kind {
	case response.OtherError, response.Meta, response.Update:
		return 0, false
	}
	return dnsutil.MinimalTTLWithMaximum(m, kind, c.settings.ttl) + c.settings.stale, !m.Truncated
}

// enter returns reasonShare if *cache* must not store the answer.
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

func (c *Cache) quotaKey(q *query) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.Write([]byte{q.flags, byte(q.question.qtype >> 8), byte(q.question.qtype), byte(q.question.qclass >> 8), byte(q.question.qclass)})
	_, _ = h.WriteString(q.prefix)
	_, _ = h.WriteString(q.question.name)
	return h.Sum64()
}

func (x *run) count(reason string) {
	if reason == reasonPassed {
		return
	}
	metric.CacheUnstored.Inc(x.Context, reason)
}
