// SPDX-License-Identifier: Apache-2.0

// Package cachekey lets a plugin above *cache* add parts to the key of *cache*, and replace the plugins below *cache*,
// in a block with ofpunt:
//
//	plugin ─ With(ctx, "network 4711") ─────► ctx ─► ofpunt/tenantcache ─ Of(ctx) ─► key
//	       ─ Route(ctx, "server ...", h) ───►     ─► ... behind cache ─ HandlerOf(ctx) ─► h
//
// For example, a plugin that sends the queries of each network to other servers adds the network. Then *cache* gives
// answers of these servers to this network only.
package cachekey

import (
	"context"
	"strconv"

	"github.com/coredns/coredns/plugin"
)

type key struct{}

// value is the value of a context.
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
	// The length distinguishes ("a", "b") from ("ab").
	v.parts += strconv.Itoa(len(part)) + ":" + part
	return v
}

// With returns a context with one more part in the key. Lookups by plugins with this context have the part too.
func With(ctx context.Context, part string) context.Context {
	return context.WithValue(ctx, key{}, of(ctx).with(part))
}

// Route is With, and h replaces the plugins below *cache*. The part must have everything that the answers of h depend
// on beside the question.
func Route(ctx context.Context, part string, h plugin.Handler) context.Context {
	v := of(ctx).with(part)
	v.handler = h
	return context.WithValue(ctx, key{}, v)
}

// Of returns the parts of ctx, "" for none. Two contexts have the same text only if they have the same parts in the same
// order.
func Of(ctx context.Context) string { return of(ctx).parts }

// HandlerOf returns the handler of the innermost Route, nil for none.
func HandlerOf(ctx context.Context) plugin.Handler { return of(ctx).handler }
