// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/header"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// recurses reports whether answers of a block have RA (RFC 1035, section 4.1.1): if it asks another server for unknown
// names, or resumes. nslookup and some resolvers reject a local answer without RA. Rules of *header* on RA take
// precedence.
func recurses(c *dnsserver.Config, hijack bool) bool {
	if h, ok := c.Handler("header").(header.Header); ok {
		for _, r := range slices.Backward(h.ResponseRules) {
			if r.Flag == "ra" {
				return r.State
			}
		}
	}
	return hijack || slices.ContainsFunc(traits.With(traits.Recurses), func(name string) bool { return c.Handler(name) != nil })
}
