// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"
	"net/netip"
)

// UpstreamSetter is told which server a plugin has asked for the answer to a query. An [Exchange] may be
// one.
type UpstreamSetter interface {
	// SetUpstream costs next to nothing while nobody wants to know.
	SetUpstream(server netip.AddrPort)
}

// SetUpstream says which server a plugin has asked for the query of a context. It does nothing for one
// that no punt brought, and for a lookup that a plugin makes of its own.
func SetUpstream(ctx context.Context, server netip.AddrPort) {
	if s, ok := ctx.Value(ExchangeKey{}).(UpstreamSetter); ok {
		s.SetUpstream(server)
	}
}
