// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"net"
	"sync"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"
)

// run is one way of a query through the plugins below *cache*. It is the context and the writer
// that they get, and observes which labels they read.
type run struct {
	context.Context
	dns.ResponseWriter
	query *query
	// outer are the labels of the context that *cache* has given, nil without metadata. inner
	// are those that the plugins below see, and own the names of those in it that are
	// from outside.
	outer, inner map[string]metadata.Func
	own          map[string]bool
	// remote and local are the addresses that the plugins see, nil for the addresses of the writer.
	remote, local net.Addr
	// lookup is set if a plugin asks, and not a guest.
	lookup bool
	// written is set once there is an answer. Only the goroutine of the run uses it.
	written bool

	mu sync.Mutex
	// read are the labels outside the key variant that were read; guarded by mu.
	read mask
	// reason is why the answer is not stored, "" if it is; guarded by mu.
	reason string
}

type runKey struct{}

// Value implements context.Context.
func (x *run) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return x
	}
	return x.Context.Value(key)
}

// runOf returns the innermost run of ctx, nil if it has none.
func runOf(ctx context.Context) *run {
	x, _ := ctx.Value(runKey{}).(*run)
	return x
}

// RemoteAddr implements dns.ResponseWriter.
func (x *run) RemoteAddr() net.Addr {
	if x.remote != nil {
		return x.remote
	}
	return x.ResponseWriter.RemoteAddr()
}

// LocalAddr implements dns.ResponseWriter.
func (x *run) LocalAddr() net.Addr {
	if x.local != nil {
		return x.local
	}
	return x.ResponseWriter.LocalAddr()
}

// observe gives the run labels that record each read. It replaces the labels of the context, or of the query
// if *cache* asks by itself: *cache* gives an empty map then.
func (x *run) observe(prefetch bool) {
	x.outer = metadata.ValueFuncs(x.Context)
	source := x.outer
	if prefetch {
		source = x.query.functions
	}
	if source == nil {
		return // the block has no metadata
	}
	labels := x.query.cache.labels
	x.Context = metadata.ContextWithMetadata(x.Context)
	x.inner, x.own = metadata.ValueFuncs(x.Context), make(map[string]bool, len(source)+len(labels.known))
	for label, f := range source {
		x.own[label], x.inner[label] = true, x.observed(label, f)
	}
	for _, label := range labels.known {
		if !x.own[label] {
			x.own[label], x.inner[label] = true, x.observed(label, func() string { return "" })
		}
	}
}

// observed returns the function of a label for the plugins below. A label in the key variant has the
// value that is in the key variant, even if it has just changed.
func (x *run) observed(label string, f metadata.Func) metadata.Func {
	n, ok := x.query.cache.labels.number(label)
	switch {
	case !ok:
		return func() string { x.refuse(reasonAsker); return f() }
	case x.query.labels.has(n):
		value := x.query.values[n]
		return func() string { return value }
	}
	return func() string {
		x.mu.Lock()
		x.read |= 1 << n
		x.mu.Unlock()
		return f()
	}
}

// publish gives the labels that plugins below have set to those above, and to *cache*.
func (x *run) publish() {
	for label, f := range x.inner {
		if !x.own[label] {
			x.outer[label] = f
		}
	}
}

// Reasons why an answer is not stored, values of the label reason of a metric.
const (
	reasonAsker  = "asker"  // it was made from more of the asker than the key has, or for one query
	reasonLookup = "lookup" // a plugin has made it from a lookup
	reasonShare  = "share"  // the network has its share of the cache
	reasonPassed = "passed" // *cache* passes the query on, as one of another zone; not counted
)

// refuse has the answer of the run not stored. The first reason counts.
func (x *run) refuse(reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reason == "" {
		x.reason = reason
	}
}

// verdict returns why what the run has come to is not stored, "" if it may be. It remembers the
// labels that were read.
func (x *run) verdict() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.read != 0 && x.query.reason == "" {
		x.query.cache.vary.add(x.query.question, x.read)
		if x.reason == "" {
			x.reason = reasonAsker
		}
	}
	return x.reason
}
