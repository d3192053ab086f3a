// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// zoneAnswerer reports whether a handler answers for a whole zone. The handler of ovnhosts implements it.
type zoneAnswerer interface{ Covers(zone string) bool }

// answersFromMemory reports whether the chain of a zone answers names of the databases without
// blocking: ovnhosts does, below nothing but plugins that never block.
func answersFromMemory(c *dnsserver.Config) bool {
	for _, h := range c.Handlers() {
		if z, ok := h.(zoneAnswerer); ok {
			return z.Covers(c.Zone)
		}
		if !traits.Has(h.Name(), traits.NeverBlocks) {
			return false
		}
	}
	return false
}
