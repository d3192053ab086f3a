// SPDX-License-Identifier: Apache-2.0

// Package tenantcache lets one *cache* of CoreDNS serve guests of many tenants. Answers that
// are the same for all guests are shared. An answer that depends on the guest has an entry
// for the guests that would get the same answer. The package stores no answers: it gives *cache* the
// names to store them under, and decides which answers *cache* does not store.
//
// Three handlers stand around *cache*:
//
//		query ─► normalizer ─► rewrite ... ─► above ─► cache ─► below ─► template, file, forward ...
//		                                        │                 │
//		                                        │ key variant     │ labels read, answer
//		                                        ▼                 ▼
//		                               what the key has    varyIndex, quota
//
//	  - normalizer (normalize.go) takes from the query what is not in the key of *cache*.
//	  - above (above.go) finds the key variant of the query (keyvariant.go): what the answer depends on
//	    beside the question. Most queries have none, and are left as they are. With a key variant,
//	    *cache* gets the query with another name, the label of the key variant before the question's.
//	  - below (below.go) restores the name for the plugins below, and observes which labels of
//	    metadata they read of the guest (run.go).
//
// # Why no guest gets the answer for another
//
// The plugins below *cache* compute an answer from the question and from the labels that they
// read. Let S be the labels that are known of a question (varyIndex). The key has the question,
// S, and the values that the labels of S have for the guest. An answer is stored only if the run
// that made it read no label outside S. Take two guests with one key, whose runs begin with the
// same question. The first label that either run reads is in S, and so has the same value for
// both; so the second label that they read is the same one, and so on. Therefore both runs give
// one answer, and both guests may get it. If a run reads a label outside S, its answer is for
// its guest alone, and S grows. S is empty for a question of which nothing is known. If the
// index forgets a question, it only begins anew.
//
// What else of a guest a plugin could use is in the key, or its answer is not stored: options of
// EDNS that *rewrite* has added, addresses and ports that a template reads (reader.go), whatever
// *whoami* answers, and lookups that a plugin makes, since these go through the server once
// more, and by its views.
//
// One condition is left to the other plugins: a label which is not in Options.Labels has to be in
// each query, or in none. Where a query lacks it, nobody can observe that a plugin has looked for
// it. The labels of ofpunt that a block names are in Options.Labels.
//
// # Locks
//
// A query with an answer in *cache* takes one read lock of a shard of varyIndex, if any question
// is known there. Other queries take the lock of the quota for the time of a few map
// accesses: expired entries are removed some at a time.
package tenantcache

import (
	"cmp"
	"context"
	"crypto/rand"
	"hash/maphash"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// name is the name of the plugin that the handlers belong to.
const name = "ofpunt"

// Scope is who shares the entries of a cache.
type Scope string

// The scopes, by the words of the Corefile.
const (
	// Shared is for answers that are shared unless they were made from something of the asker.
	Shared Scope = "shared"
	// Network is for entries that only guests of one network share.
	Network Scope = "network"
	// Port is for entries that each guest has for itself.
	Port Scope = "port"
)

// DefaultShare is Options.Share of a Corefile that says nothing.
const DefaultShare = 25

// Options is what a Cache is made of.
type Options struct {
	// Scope is Shared if it is empty.
	Scope Scope
	// Share is the part of the cache that the entries of one network may take, in percent; 0 is
	// DefaultShare.
	Share int
	// Labels are the labels of metadata that the block names. A query without one of them has it with an
	// empty value.
	Labels []string
	// Block is the server block, which has the directives cache and template. Without them
	// their defaults hold.
	Block caddyfile.ServerBlock
	// Detach returns the context of a query that *cache* makes by itself, for the context of the guest whose
	// query has caused it.
	Detach func(context.Context) context.Context
	// Now is the clock, time.Now if it is nil.
	Now func() time.Time
}

// Cache is what the handlers around one *cache* share. It lives as long as the *cache*, up to a
// reload. Its methods are safe for concurrent use.
type Cache struct {
	scope    Scope
	settings settings
	readers  []reader
	labels   *labelSet
	vary     *varyIndex
	quota    *quota
	detach   func(context.Context) context.Context
	now      func() time.Time
	// onward is the handler behind the newest below: handlers are made from the end of a chain to
	// its begin, on one goroutine.
	onward plugin.Handler
	// nonce is in each key variant, so that no guest can name a key variant.
	nonce [16]byte
	seed  maphash.Seed // of the keys in quota
}

// New returns a Cache for the *cache* of a block.
func New(o Options) *Cache {
	s := readSettings(o.Block)
	c := &Cache{
		scope: cmp.Or(o.Scope, Shared), settings: s, readers: readersOf(o.Block),
		labels: newLabelSet(o.Labels), vary: newVaryIndex(s.capacity),
		detach: o.Detach, now: o.Now, seed: maphash.MakeSeed(),
	}
	if c.detach == nil {
		c.detach = func(ctx context.Context) context.Context { return ctx }
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.quota = newQuota(s.capacity, cmp.Or(o.Share, DefaultShare), c.now())
	_, _ = rand.Read(c.nonce[:]) // has no errors (crypto/rand)
	return c
}

// Above returns the handler that stands before *cache*.
func (c *Cache) Above(next plugin.Handler) plugin.Handler { return &above{c, next, c.onward} }

// Below returns the handler that stands behind *cache*.
func (c *Cache) Below(next plugin.Handler) plugin.Handler {
	c.onward = next
	return &below{c, next}
}

// Unstored returns a handler for a place behind *cache*, before a plugin whose answers are for
// one query alone.
func Unstored(next plugin.Handler) plugin.Handler { return &unstored{next} }

type unstored struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*unstored) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *unstored) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x := runOf(ctx); x != nil {
		x.refuse(reasonAsker)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// MarkLookup notes that a plugin makes a lookup for a query, by the context that it makes it
// with. If the plugin is below *cache*, its answer is not stored: it has put it together from
// what the lookup finds, and that goes past the plugins above *cache*, and by views.
func MarkLookup(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.refuse(reasonLookup)
	}
}
