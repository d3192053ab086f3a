// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// zoneAnswerer is the handler of ovnhosts.
type zoneAnswerer interface{ Covers(zone string) bool }

// answersFromMemory reports whether names of the databases are answered without blocking: plugins above ovnhosts never
// block and keep the question.
func answersFromMemory(c *dnsserver.Config) bool {
	for _, h := range c.Handlers() {
		if z, ok := h.(zoneAnswerer); ok {
			return z.Covers(c.Zone)
		}
		if !traits.Has(h.Name(), traits.NeverBlocks) || traits.Has(h.Name(), traits.ChangesQuestion) {
			return false
		}
	}
	return false
}

// answersFromCache reports whether no plugin above *cache* blocks.
func answersFromCache(c *dnsserver.Config) bool {
	for _, h := range c.Handlers() {
		if h.Name() == "cache" {
			return true
		}
		if _, ok := h.(zoneAnswerer); !ok && !traits.Has(h.Name(), traits.NeverBlocks) {
			return false
		}
	}
	return false
}

// mayBlock runs before the plugins below *cache*.
func mayBlock(ctx context.Context) {
	if x, ok := punt.FromContext(ctx); ok {
		x.LeaveReader()
	}
}
