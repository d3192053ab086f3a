// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
)

// Controller returns what caddy gives the setup of a directive in a server block of file, for
// parsing without an instance. It has no tokens where the block has no such directive.
func Controller(file string, block *caddyfile.ServerBlock, directive string) *caddy.Controller {
	return &caddy.Controller{Dispenser: caddyfile.NewDispenserTokens(file, block.Tokens[directive]), ServerBlockKeys: block.Keys}
}
