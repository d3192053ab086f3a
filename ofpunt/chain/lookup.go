// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// lookupContext is the context of a question that a plugin asks while it works on a guest's query: CoreDNS's
// Upstream.Lookup takes another message through the server, with the context of the query. The origin is the
// guest's, but a lookup has no packet that could be resumed.
type lookupContext struct {
	context.Context
	origin origin.Origin
}

// newLookupContext returns the context of a lookup for a query of origin o.
func newLookupContext(ctx context.Context, o *origin.Origin) *lookupContext {
	c := &lookupContext{Context: ctx, origin: *o}
	c.origin.Resumer, c.origin.Lookup = nil, true
	return c
}

// detach returns the context of a query that *cache* makes by itself, for the context of the guest's query
// before.
func detach(ctx context.Context) context.Context {
	if o, ok := origin.FromContext(ctx); ok {
		return newLookupContext(ctx, o)
	}
	return ctx
}

// Value implements context.Context.
func (c *lookupContext) Value(key any) any {
	switch key.(type) {
	case punt.Key, origin.ExchangeKey:
		return nil
	case origin.Key:
		return &c.origin
	}
	return c.Context.Value(key)
}
