// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// zoneAnswerer reports whether a handler answers for a whole zone: that of ovnhosts.
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

// find is punt.Config.Find: it looks a name up in the asker's network. With the scope and the
// domain of a block, ovnhosts may find more names than find does, but no other answer to one.
func (s *server) find(o *origin.Origin, qname string, found *ovn.LookupCache) bool {
	return found.Prefetch(s.source.Snapshot(), o.Network, qname)
}
