// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/coredns/coredns/plugin/tsig"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punt"
)

// keyOwner is a plugin with keys in dnsserver.Config.TsigSecret.
type keyOwner interface {
	plugin.Handler
	// OwnKeys returns lower-case names of keys that are no keys of *tsig*.
	OwnKeys() []string
}

func wrapPlugins(configs []*dnsserver.Config, hijack bool, hedgeAfter time.Duration) {
	for _, c := range configs {
		// Zones of one block share the slice.
		c.Plugin = slices.Clone(c.Plugin)
		keys := maps.Clone(c.TsigSecret)
		for i, p := range c.Plugin {
			c.Plugin[i] = func(next plugin.Handler) plugin.Handler {
				switch h := p(next).(type) {
				case *forward.Forward:
					return &loopGuard{Forward: h, upstreams: upstreamsOf(h), hijack: hijack, hedge: newHedge(h, hedgeAfter)}
				case *tsig.TSIGServer:
					return &tsigOfBlock{h, keys}
				case keyOwner:
					for _, k := range h.OwnKeys() {
						delete(keys, k)
					}
					return h
				case *transfer.Transfer:
					h.Next = &noTransfers{h.Next}
					return h
				default:
					return h
				}
			}
		}
	}
}

// tsigOfBlock is a *tsig* with its block's keys. On a socket CoreDNS takes the keys of all blocks: with a view per
// tenant, a tenant's key would be valid in another tenant's block.
type tsigOfBlock struct {
	*tsig.TSIGServer
	keys map[string]string // base64 secrets by lower-case names
}

func (t *tsigOfBlock) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x, ok := punt.FromContext(ctx); ok && r == x.Request() {
		x.SetKeys(t.keys)
	}
	return t.TSIGServer.ServeDNS(ctx, w, r)
}
