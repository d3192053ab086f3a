// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// nonBlocking are the plugins that never block, and do not change the question. A plugin that is
// not listed may do either.
var nonBlocking = []string{
	name, "metadata", "cancel", "nsid", "bufsize", "debug", "ready", "health", "pprof", "prometheus", "errors", "log",
	"dnstap", "audit", "local", "any", "chaos", "loadbalance", "acl", "header", "minimal",
}

// zoneAnswerer reports whether a handler answers for a whole zone: that of ovnhosts.
type zoneAnswerer interface{ Covers(zone string) bool }

// answersFromMemory reports whether the chain of a zone answers names of the databases without
// blocking: ovnhosts does, below nothing but nonBlocking plugins.
func answersFromMemory(c *dnsserver.Config) bool {
	for _, h := range c.Handlers() {
		if z, ok := h.(zoneAnswerer); ok {
			return z.Covers(c.Zone)
		}
		if !slices.Contains(nonBlocking, h.Name()) {
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
