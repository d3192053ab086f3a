// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"net"
	"sync"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"
)

// run is a query's pass through the plugins below *cache*. It is their context and writer, and observes their reads
// of labels.
type run struct {
	context.Context
	dns.ResponseWriter
	query *query
	// outer are *cache*'s labels, nil without metadata, inner the labels below; own has the names from outside.
	outer, inner map[string]metadata.Func
	own          map[string]bool
	// nil for the writer's addresses
	remote, local net.Addr
	// a plugin asks, not a guest
	lookup bool
	// there is an answer; used by the run's goroutine only
	written bool

	mu sync.Mutex
	// labels read outside the key variant; guarded by mu
	read mask
	// reason against storing, "" if none; guarded by mu
	reason string
}

type runKey struct{}

func (x *run) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return x
	}
	return x.Context.Value(key)
}

// runOf returns the innermost run, or nil.
func runOf(ctx context.Context) *run {
	x, _ := ctx.Value(runKey{}).(*run)
	return x
}

func (x *run) RemoteAddr() net.Addr {
	if x.remote != nil {
		return x.remote
	}
	return x.ResponseWriter.RemoteAddr()
}

func (x *run) LocalAddr() net.Addr {
	if x.local != nil {
		return x.local
	}
	return x.ResponseWriter.LocalAddr()
}

// observe records reads of labels: of the context or, for a prefetch, where *cache* gives an empty map, of the
// query.
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

// A label in the key variant keeps that value, even if it has just changed.
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

// publish passes labels set below to plugins above and *cache*.
func (x *run) publish() {
	for label, f := range x.inner {
		if !x.own[label] {
			x.outer[label] = f
		}
	}
}

// Reasons against storing an answer, values of a metric's label.
const (
	reasonAsker  = "asker"  // it depends on more of the guest than the key, or on one query
	reasonLookup = "lookup" // a plugin made it from a lookup
	reasonShare  = "share"  // the network has its share
	reasonPassed = "passed" // not covered by *cache*; not counted
)

// The first reason counts.
func (x *run) refuse(reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reason == "" {
		x.reason = reason
	}
}

// verdict returns the reason against storing, "" if none. It records the read labels in varyIndex.
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
