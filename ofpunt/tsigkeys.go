// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"

	"github.com/coredns/coredns/plugin/tsig"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punt"
)

// tsigOfBlock is a *tsig* that takes the keys of its own block only. On a socket CoreDNS takes
// those of all blocks of the server: with a view for each tenant, the key of one tenant would be
// good in the block of another.
type tsigOfBlock struct {
	*tsig.TSIGServer
	keys map[string]string // secrets in base64, by their names in lower case
}

// ServeDNS implements plugin.Handler.
func (t *tsigOfBlock) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x, ok := punt.FromContext(ctx); ok && r == x.Request() {
		x.SetKeys(t.keys)
	}
	return t.TSIGServer.ServeDNS(ctx, w, r)
}
