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

// query is one query to *cache*. It is the context and the writer that *cache* gets, and its
// context outlives it: *cache* asks for an answer anew with it.
type query struct {
	context.Context
	dns.ResponseWriter
	cache *Cache
	// question is the guest's question, and name its name in the letters of the guest.
	question question
	name     string
	// prefix stands before name in the question that *cache* gets, "" for none.
	prefix string
	// flags has what the key of *cache* has beside the question: DO in bit 0, CD in bit 1.
	flags byte
	// edns is set if the query has EDNS.
	edns bool
	// labels are those in the key variant, and values what they are for the asker, by their numbers.
	labels mask
	values []string
	// reads is what the templates for the question may read beside labels.
	reads reading
	// functions are the labels of the query, and remote and local its addresses, if *cache* may
	// ask anew.
	functions     map[string]metadata.Func
	remote, local net.Addr
	// peeking is set if explain reads *cache*, which then must not change.
	peeking bool
	// reason is why the answer is not stored whatever the plugins below do, "" if it may be.
	reason string

	// marked is set once below has set TC in an answer so that *cache* does not store it;
	// truncated is the TC that the answer has.
	marked, truncated atomic.Bool
	// failed is set once the plugins below have failed in a way that is not for others.
	failed atomic.Bool
}

type queryKey struct{}

// Value implements context.Context.
func (q *query) Value(key any) any {
	if _, ok := key.(queryKey); ok {
		return q
	}
	return q.Context.Value(key)
}

// Err implements context.Context. *cache* stores a failure of the plugins below by itself, past
// their writer, unless the context has ended.
func (q *query) Err() error {
	if q.failed.Load() {
		return context.Canceled
	}
	return q.Context.Err()
}

// queryOf returns the innermost query of ctx, nil if it has none.
func queryOf(ctx context.Context) *query {
	q, _ := ctx.Value(queryKey{}).(*query)
	return q
}

// WriteMsg implements dns.ResponseWriter.
func (q *query) WriteMsg(m *dns.Msg) error {
	if m.Truncated && q.marked.Load() {
		// *cache* stores no truncated answer, so this is the one that was marked.
		m.Truncated = q.truncated.Load()
	}
	return q.ResponseWriter.WriteMsg(withErrors(unprefixed(m, q.prefix), q.edns))
}

// above stands before *cache*.
type above struct {
	cache *Cache
	next  plugin.Handler
	// onward is the handler behind below.
	onward plugin.Handler
}

// Name implements plugin.Handler.
func (*above) Name() string { return name }

// ServeDNS implements plugin.Handler.
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

// ask reads from r what the key has. It reports whether *cache* may know the name.
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
		// Plugins above write to the map while *cache* asks anew.
		q.functions = maps.Clone(metadata.ValueFuncs(ctx))
		q.remote, q.local = cloneAddr(q.RemoteAddr()), cloneAddr(q.LocalAddr())
	}
	var room [256]byte
	q.prefix = q.cache.prefix(q.cache.keyVariant(room[:0], ctx, q, r))
	return true
}

// withName returns r with another name in its question.
func withName(r *dns.Msg, name string) *dns.Msg {
	m := *r
	m.Question = []dns.Question{{Name: name, Qtype: r.Question[0].Qtype, Qclass: r.Question[0].Qclass}}
	return &m
}

// prefixed returns m as *cache* is to store it: with a prefix before the name of the question,
// in the question and wherever it owns a record of the answer. *cache* looks whether these agree.
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

// unprefixed undoes prefixed. Names are as they were, upper case included.
func unprefixed(m *dns.Msg, prefix string) *dns.Msg {
	if prefix == "" || len(m.Question) != 1 || !strings.HasPrefix(m.Question[0].Name, prefix) {
		return m
	}
	m = withName(m, strings.TrimPrefix(m.Question[0].Name, prefix))
	m.Answer = renamed(m.Answer, func(owner string) (string, bool) { return strings.CutPrefix(owner, prefix) })
	return m
}

// renamed returns the records with other owners, where rename says so. Those are copies, since
// *cache* may have stored the records.
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
