// SPDX-License-Identifier: Apache-2.0

// Package cachekey lets a plugin above cache say that the answer to a query is not for all, and
// that a handler of its own has the answer. What it adds to the context becomes a part of the key
// of *cache*, in a block with ofpunt:
//
//	plugin ─ With(ctx, "network 4711") ─────► ctx ─► ofpunt/tenantcache ─ Of(ctx) ─► key
//	       ─ Route(ctx, "server ...", h) ───►     ─► ... behind cache ─ HandlerOf(ctx) ─► h
//
// A plugin that sends the queries of each network to other servers adds the network. So an
// answer of those servers is given to nobody else, and cached for that network. With Route the
// queries that *cache* has no answer to go to the handler, in the place of the plugins below.
package cachekey

import (
	"context"
	"strconv"

	"github.com/coredns/coredns/plugin"
)

type key struct{}

// value is what a context has.
type value struct {
	parts   string
	handler plugin.Handler
}

func of(ctx context.Context) (v value) {
	v, _ = ctx.Value(key{}).(value)
	return v
}

// with returns v with one more part.
func (v value) with(part string) value {
	// The length keeps ("a", "b") apart from ("ab").
	v.parts += strconv.Itoa(len(part)) + ":" + part
	return v
}

// With returns a context whose queries have an entry of *cache* of their own for each part. What
// outer contexts have added stays. Lookups that plugins make with the context have it too.
func With(ctx context.Context, part string) context.Context {
	return context.WithValue(ctx, key{}, of(ctx).with(part))
}

// Route is With for queries that h answers in the place of the plugins below *cache*. The part
// has to say all that the answers of h depend on beside the question.
func Route(ctx context.Context, part string, h plugin.Handler) context.Context {
	v := of(ctx).with(part)
	v.handler = h
	return context.WithValue(ctx, key{}, v)
}

// Of returns what With and Route have added to ctx, "" for nothing. Two contexts have the same
// text only if the same parts were added to both, in the same order.
func Of(ctx context.Context) string { return of(ctx).parts }

// HandlerOf returns the handler of the innermost Route, nil for none.
func HandlerOf(ctx context.Context) plugin.Handler { return of(ctx).handler }
