// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// lookupContext is the context of a plugin's lookup for a guest's query: CoreDNS' Upstream.Lookup sends a message
// through the server with the query's context. The origin is the guest, without a packet to resume.
type lookupContext struct {
	context.Context
	origin origin.Origin
}

func newLookupContext(ctx context.Context, o *origin.Origin) *lookupContext {
	c := &lookupContext{Context: ctx, origin: *o}
	c.origin.Resumer, c.origin.Lookup = nil, true
	return c
}

// detach returns the context of a query that *cache* makes itself, from the guest's context.
func detach(ctx context.Context) context.Context {
	if o, ok := origin.FromContext(ctx); ok {
		return newLookupContext(ctx, o)
	}
	return ctx
}

func (c *lookupContext) Value(key any) any {
	switch key.(type) {
	case punt.Key, origin.ExchangeKey, opening.CallerKey:
		return nil
	case origin.Key:
		return &c.origin
	}
	return c.Context.Value(key)
}
