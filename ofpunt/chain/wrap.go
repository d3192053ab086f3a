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

// keyOwner is a plugin that has put keys into dnsserver.Config.TsigSecret for messages to itself.
type keyOwner interface {
	plugin.Handler
	// OwnKeys returns the names of the keys, in lower case. None is also a key of *tsig*.
	OwnKeys() []string
}

// wrapPlugins wraps the forwards of each of configs in loopGuards, and each tsig in a tsigOfBlock. Behind
// each transfer it puts a noTransfers.
func wrapPlugins(configs []*dnsserver.Config, hijack bool, hedgeAfter time.Duration) {
	for _, c := range configs {
		// The zones of one block share the slice.
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

// tsigOfBlock is a *tsig* that takes the keys of its block only. On a socket CoreDNS takes the keys of all
// blocks of the server: with a view for each tenant, the key of one tenant would be good in the block of
// another.
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
