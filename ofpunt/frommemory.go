// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
)

// swift are the plugins above ovnhosts that wait for nothing and leave the question
// as it is. Those of a block that has another one may do either.
var swift = []string{
	name, "metadata", "cancel", "nsid", "bufsize", "debug", "ready", "health", "pprof", "prometheus", "errors", "log",
	"dnstap", "local", "any", "chaos", "loadbalance", "acl", "header", "minimal",
}

// zoned is the ovnhosts handler, which answers for some zones.
type zoned interface{ Covers(zone string) bool }

// answersFromMemory tells whether a zone has nothing but ovnhosts answer the names
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

// doubt is how long queries are left to workers once one has kept a reader: a
// chain may wait after all, or the machine was busy.
const doubt = time.Minute

// atHand tells whether the chains answer names of the databases without waiting,
// by all that is known.
func (s *server) atHand(now time.Time) bool {
	return s.fromMemory && now.UnixNano() > s.doubted.Load()
}

// kept takes note that a query has kept a reader.
func (s *server) kept(now time.Time) {
	if s.doubted.Swap(now.Add(doubt).UnixNano()) == 0 {
		log.Infof("Bridge %s: a query kept the reader of the connection for some 100 ms, others are left to workers for a minute", s.options.Bridge)
	}
}
