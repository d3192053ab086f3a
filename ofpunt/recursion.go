// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/header"
)

// recursors are the plugins that send a query on to somebody who may know the name.
// Those of them that are not in this build can be added to another.
var recursors = []string{"forward", "grpc", "unbound", "fanout", "recursor", "passthrough"}

// recurses reports whether the answers of a block have RA (RFC 1035, section 4.1.1):
// what it does not know itself it asks somebody else, or sends on to the server that
// the guest has asked. Without RA, nslookup and some resolvers take a local answer for
// that of a server which is no use to them. A rule of header on RA speaks last.
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
