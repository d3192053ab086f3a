// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"
	"net/netip"
)

// UpstreamSetter gets the address of the server that a plugin asked. An [Exchange] may implement it.
type UpstreamSetter interface {
	// SetUpstream costs next to nothing without a watcher.
	SetUpstream(server netip.AddrPort)
}

// SetUpstream records which server a plugin has asked for the query of a context. It does nothing for a query
// from a socket, and for a lookup that a plugin makes.
func SetUpstream(ctx context.Context, server netip.AddrPort) {
	if s, ok := ctx.Value(ExchangeKey{}).(UpstreamSetter); ok {
		s.SetUpstream(server)
	}
}
