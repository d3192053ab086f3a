// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/header"
)

// recursors are the plugins that send a query on to a server that may know the name. Some are
// not in this build, but may be in another.
var recursors = []string{"forward", "grpc", "unbound", "fanout", "recursor", "passthrough", "ovnforward"}

// recurses reports whether the answers of a block have RA (RFC 1035, section 4.1.1): for a name
// that it does not know, it asks another server, or sends the query on to the server that the
// guest has asked. nslookup and some resolvers reject a local answer without RA. A rule of
// header on RA overrides all else.
func recurses(c *dnsserver.Config, hijack bool) bool {
	if h, ok := c.Handler("header").(header.Header); ok {
		for _, r := range slices.Backward(h.ResponseRules) {
			if r.Flag == "ra" {
				return r.State
			}
		}
	}
	return hijack || slices.ContainsFunc(recursors, func(name string) bool { return c.Handler(name) != nil })
}
