// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"maps"
	"net"
	"strings"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
)

// query is the context and writer of a query to *cache*. The context may outlive the query: *cache* refreshes
// answers with it.
type query struct {
	context.Context
	dns.ResponseWriter
	cache *Cache
	// question is in lower case, name as asked.
	question question
	name     string
	// before name in the question for *cache*, "" for none
	prefix string
	// the rest of *cache*'s key: DO in bit 0, CD in bit 1
	flags byte
	edns  bool
	// values are the guest's values of labels in the key variant, by number.
	labels mask
	values []string
	// what templates for the question may read
	reads reading
	// if *cache* may refresh: the labels and addresses of the query
	functions     map[string]metadata.Func
	remote, local net.Addr
	// explain reads *cache*, which must not change
	peeking bool
	// reason against storing, "" if none
	reason string

	// marked: below has set TC to keep an answer out of *cache*. truncated is the original TC.
	marked, truncated atomic.Bool
	// the plugins below have failed for this guest alone
	failed atomic.Bool
}

type queryKey struct{}

func (q *query) Value(key any) any {
	if _, ok := key.(queryKey); ok {
		return q
	}
	return q.Context.Value(key)
}

// Err implements context.Context. *cache* stores a failure unless the context has ended.
func (q *query) Err() error {
	if q.failed.Load() {
		return context.Canceled
	}
	return q.Context.Err()
}

// queryOf returns the innermost query, or nil.
func queryOf(ctx context.Context) *query {
	q, _ := ctx.Value(queryKey{}).(*query)
	return q
}

func (q *query) WriteMsg(m *dns.Msg) error {
	if m.Truncated && q.marked.Load() {
		// *cache* stores no truncated answer: below has marked it.
		m.Truncated = q.truncated.Load()
	}
	return q.ResponseWriter.WriteMsg(withErrors(unprefixed(m, q.prefix), q.edns))
}

type above struct {
	cache *Cache
	next  plugin.Handler
	// the handler after below
	onward plugin.Handler
}

func (*above) Name() string { return name }

func (h *above) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x := explain.Of(ctx); x != nil {
		return h.explain(ctx, x, w, r)
	}
	q := &query{Context: ctx, ResponseWriter: w, cache: h.cache, edns: r.IsEdns0() != nil}
	if r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 || !q.ask(ctx, r) {
		q.reason = reasonPassed
		return plugin.NextOrFailure(name, h.next, q, q, r)
	}
	if q.prefix != "" {
		r = withName(r, q.prefix+q.name)
	}
	return plugin.NextOrFailure(name, h.next, q, q, r)
}

// ask reads the key. It reports whether *cache* covers the name.
func (q *query) ask(ctx context.Context, r *dns.Msg) (known bool) {
	state := request.Request{Req: r}
	q.name, q.question = r.Question[0].Name, question{state.Name(), r.Question[0].Qtype, r.Question[0].Qclass}
	if !q.cache.settings.covers(q.question.name) {
		return false
	}
	if o := r.IsEdns0(); o != nil && o.Do() {
		q.flags |= 1
	}
	if r.CheckingDisabled {
		q.flags |= 2
	}
	if q.cache.settings.refreshes {
		// Plugins above write to the map while *cache* refreshes.
		q.functions = maps.Clone(metadata.ValueFuncs(ctx))
		q.remote, q.local = cloneAddr(q.RemoteAddr()), cloneAddr(q.LocalAddr())
	}
	var room [256]byte
	q.prefix = q.cache.prefix(q.cache.keyVariant(room[:0], ctx, q, r))
	return true
}

func withName(r *dns.Msg, name string) *dns.Msg {
	m := *r
	m.Question = []dns.Question{{Name: name, Qtype: r.Question[0].Qtype, Qclass: r.Question[0].Qclass}}
	return &m
}

// prefixed adds the prefix to the question's name and to equal owners in the answer, which *cache* compares.
func prefixed(m *dns.Msg, prefix, name string) *dns.Msg {
	if prefix == "" || len(m.Question) != 1 || !strings.EqualFold(m.Question[0].Name, name) {
		return m
	}
	m = withName(m, prefix+m.Question[0].Name)
	m.Answer = renamed(m.Answer, func(owner string) (string, bool) {
		return prefix + owner, strings.EqualFold(owner, name)
	})
	return m
}

// unprefixed preserves case.
func unprefixed(m *dns.Msg, prefix string) *dns.Msg {
	if prefix == "" || len(m.Question) != 1 || !strings.HasPrefix(m.Question[0].Name, prefix) {
		return m
	}
	m = withName(m, strings.TrimPrefix(m.Question[0].Name, prefix))
	m.Answer = renamed(m.Answer, func(owner string) (string, bool) { return strings.CutPrefix(owner, prefix) })
	return m
}

// renamed copies changed records, as *cache* may have stored the originals.
func renamed(rrs []dns.RR, rename func(owner string) (string, bool)) []dns.RR {
	all := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		if owner, ok := rename(rr.Header().Name); ok {
			rr = dns.Copy(rr)
			rr.Header().Name = owner
		}
		all[i] = rr
	}
	return all
}
