// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"
	"net/netip"
)

// UpstreamSetter gets the address of the server that a plugin asked. An [Exchange] may implement it.
type UpstreamSetter interface {
	// SetUpstream is cheap without a watcher.
	SetUpstream(server netip.AddrPort)
}

// SetUpstream records the server that a plugin has asked. It does nothing for queries from sockets and lookups by
// plugins.
func SetUpstream(ctx context.Context, server netip.AddrPort) {
	if s, ok := ctx.Value(ExchangeKey{}).(UpstreamSetter); ok {
		s.SetUpstream(server)
	}
}
