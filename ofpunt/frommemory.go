// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// swift are the plugins above ovnhosts that wait for nothing and leave the question
// as it is. Those of a block that has another one may do either.
var swift = []string{
	name, "metadata", "cancel", "nsid", "bufsize", "debug", "ready", "health", "pprof", "prometheus", "errors", "log",
	"dnstap", "local", "any", "chaos", "loadbalance", "acl", "header", "minimal",
}

// zoned is the ovnhosts handler, which answers for some zones.
type zoned interface{ Covers(zone string) bool }

// answersFromMemory reports whether a zone has nothing but ovnhosts answer the names
// of the databases.
func answersFromMemory(c *dnsserver.Config) bool {
	for _, h := range c.Handlers() {
		if z, ok := h.(zoned); ok {
			return z.Covers(c.Zone)
		}
		if !slices.Contains(swift, h.Name()) {
			return false
		}
	}
	return false
}

// find is that of a punt server: it looks a name up in the asker's network. The scope and the
// domain that a block gives its askers may find more, but nothing else.
func (s *server) find(o *origin.Origin, qname string, found *ovn.Found) bool {
	return found.Find(s.source.Snapshot(), o.Network, qname)
}
