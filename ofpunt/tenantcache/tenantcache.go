// SPDX-License-Identifier: Apache-2.0

// Package tenantcache lets one *cache* of CoreDNS serve many tenants. Guests share an entry if they would get the same
// answer. The package stores no answers: it chooses their names in *cache*, and the answers that *cache* does not store.
//
// Three handlers stand around *cache*:
//
//		query ─► normalizer ─► rewrite ... ─► above ─► cache ─► below ─► template, file, forward ...
//		                                        │                 │
//		                                        │ key variant     │ labels read, answer
//		                                        ▼                 ▼
//		                               what the key has    varyIndex, quota
//
//	  - normalizer (normalize.go) removes the parts of the query that the key of *cache* lacks.
//	  - above (above.go) finds the key variant of the query (keyvariant.go): what the answer depends on
//	    beside the question. Most queries have none. A key variant is a label before the name for *cache*.
//	  - below (below.go) restores the name for the plugins below, and observes which metadata labels
//	    they read (run.go).
//
// # Why no guest gets the answer for another
//
// The plugins below *cache* compute an answer from the question and the labels that they read. Let S be the known
// labels of a question (varyIndex), empty at first. The key has the question, S, and the guest's values of S. An answer
// is stored only if its run read no label outside S. Take two guests with one key. The first label that either run reads
// is in S, so it has the same value for both; so the second label is the same, and so on. Both runs give one answer,
// which both guests may get. If a run reads a label outside S, its answer is for its guest alone, and S grows. If the
// index forgets a question, S begins anew.
//
// Other properties of a guest are in the key, or the answer is not stored: EDNS options of *rewrite*, addresses and ports
// that a template reads (reader.go), answers of *whoami*, and lookups by plugins, which use the server's views again.
//
// Other plugins must ensure that a label outside Options.Labels is in each query or in none, as reads of a missing label
// cannot be observed. Options.Labels has the labels of ofpunt that a block names.
//
// # Locks
//
// A query with an answer in *cache* takes one read lock of a varyIndex shard, unless the index is empty. Other queries
// take the quota's lock for a few map accesses: expired entries are removed some at a time.
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

const name = "ofpunt"

// Scope is who shares the entries of a cache.
type Scope string

// The scopes, by their Corefile words.
const (
	// Shared answers are for all guests, unless they depend on the guest.
	Shared Scope = "shared"
	// Network entries are shared by guests of one network.
	Network Scope = "network"
	// Port entries are not shared.
	Port Scope = "port"
)

// DefaultShare is Options.Share by default.
const DefaultShare = 25

// Options configure a Cache.
type Options struct {
	// Scope is Shared if empty.
	Scope Scope
	// Share of one network in percent; 0 is DefaultShare.
	Share int
	// Labels that the block names. A missing label has an empty value.
	Labels []string
	// Block has the directives cache and template.
	Block caddyfile.ServerBlock
	// Detach returns the context of a query by *cache* itself, from the context of its cause.
	Detach func(context.Context) context.Context
	// Miss is called before a guest's query without an answer in *cache* goes on. It may be nil.
	Miss func(context.Context)
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Cache is the state of the handlers around one *cache*, until a reload. It is safe for concurrent use.
type Cache struct {
	scope    Scope
	settings settings
	readers  []reader
	labels   *labelSet
	vary     *varyIndex
	quota    *quota
	detach   func(context.Context) context.Context
	miss     func(context.Context) // may be nil
	now      func() time.Time
	// handler after the newest below: a chain is built from its end, on one goroutine
	onward plugin.Handler
	// nonce makes key variants secret.
	nonce [16]byte
	seed  maphash.Seed // of the keys in quota
}

// New returns a Cache for the *cache* of a block.
func New(o Options) *Cache {
	s := readSettings(o.Block)
	c := &Cache{
		scope: cmp.Or(o.Scope, Shared), settings: s, readers: readersOf(o.Block),
		labels: newLabelSet(o.Labels), vary: newVaryIndex(s.capacity),
		detach: o.Detach, miss: o.Miss, now: o.Now, seed: maphash.MakeSeed(),
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

// Above returns the handler before *cache*.
func (c *Cache) Above(next plugin.Handler) plugin.Handler { return &above{c, next, c.onward} }

// Below returns the handler after *cache*.
func (c *Cache) Below(next plugin.Handler) plugin.Handler {
	c.onward = next
	return &below{c, next}
}

// Unstored returns a handler after *cache*, before a plugin whose answers are for one query alone.
func Unstored(next plugin.Handler) plugin.Handler { return &unstored{next} }

type unstored struct{ next plugin.Handler }

func (*unstored) Name() string { return name }

func (h *unstored) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x := runOf(ctx); x != nil {
		x.refuse(reasonAsker)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// MarkLookup records a plugin's lookup with this context. If the plugin is below *cache*, its answer is not stored:
// the lookup bypasses the plugins above *cache*, and depends on views.
func MarkLookup(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.refuse(reasonLookup)
	}
}
