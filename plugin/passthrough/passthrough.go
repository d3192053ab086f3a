// SPDX-License-Identifier: Apache-2.0

// Package passthrough is a CoreDNS plugin that sends a punted query on to where
// its guest had sent it, as if it had never been punted.
package passthrough

import (
	"context"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
)

const name = "passthrough"

func init() { plugin.Register(name, setup) }

func setup(c *caddy.Controller) error {
	if _, err := corefile.Read(c, nil, nil); err != nil {
		return plugin.Error(name, err)
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		return &Handler{Next: next}
	})
	return nil
}

// Handler stands last in a chain. A query that no punt brought, or one that the
// switch does not hold, it gives to the next plugin if there is one.
type Handler struct{ Next plugin.Handler }

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler. Success without a message says that the
// query has been dealt with.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	handled, code, err := origin.Resume(ctx, w, r)
	switch _, punted := origin.FromContext(ctx); {
	case err != nil:
		return code, plugin.Error(name, err)
	case handled:
		return code, nil
	case punted && h.Next == nil:
		// Over TCP. That is the guest's choice and no failure: with an error, cache
		// would tell other guests the same.
		return dns.RcodeServerFailure, nil
	}
	return plugin.NextOrFailure(name, h.Next, ctx, w, r)
}
