// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/coredns/coredns/plugin/tsig"
)

// wrapPlugins wraps the forwards of each of configs in loopGuards, and each tsig in a tsigOfBlock. Behind
// each transfer it puts a noTransfers.
func wrapPlugins(configs []*dnsserver.Config) {
	for _, c := range configs {
		// The zones of one block share the slice.
		c.Plugin = slices.Clone(c.Plugin)
		for i, p := range c.Plugin {
			c.Plugin[i] = func(next plugin.Handler) plugin.Handler {
				switch h := p(next).(type) {
				case *forward.Forward:
					return &loopGuard{Forward: h, upstreams: upstreamsOf(h)}
				case *tsig.TSIGServer:
					return &tsigOfBlock{h, c.TsigSecret}
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
