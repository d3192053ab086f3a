// SPDX-License-Identifier: Apache-2.0

// Package cachekey lets a plugin above cache say that the answer to a query is not for all. What
// it adds to the context becomes a part of the key of *cache*, in a block with ofpunt:
//
//	plugin ─ With(ctx, "network 4711") ─► ctx ─► ofpunt/tenantcache ─ Of(ctx) ─► key
//
// A plugin that sends the queries of each network to other servers adds the network. So an
// answer of those servers is given to nobody else, and cached for that network.
package cachekey

import (
	"context"
	"strconv"
)

type key struct{}

// With returns a context whose queries have an entry of *cache* of their own for each part. What
// outer contexts have added stays. Lookups that plugins make with the context have it too.
func With(ctx context.Context, part string) context.Context {
	// The length keeps ("a", "b") apart from ("ab").
	return context.WithValue(ctx, key{}, Of(ctx)+strconv.Itoa(len(part))+":"+part)
}

// Of returns what With has added to ctx, "" for nothing. Two contexts have the same text only if
// the same parts were added to both, in the same order.
func Of(ctx context.Context) string {
	s, _ := ctx.Value(key{}).(string)
	return s
}
