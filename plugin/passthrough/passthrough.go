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

	"github.com/puntdns/puntdns/internal/origin"
)

const name = "passthrough"

func init() { plugin.Register(name, setup) }

func setup(c *caddy.Controller) error {
	c.Next()
	if args := c.RemainingArgs(); len(args) > 0 {
		return plugin.Error(name, c.Errf("%q: expected nothing after passthrough", args))
	}
	if c.NextBlock() {
		return plugin.Error(name, c.Errf("unknown property %q, expected none", c.Val()))
	}
	if c.Next() {
		return plugin.Error(name, c.Err("passthrough is given twice in one server block, expected once"))
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		return &Handler{Next: next}
	})
	return nil
}

// Handler stands last in a chain. A query that no punt brought, or one that the
// switch does not hold, it gives to the next plugin.
type Handler struct{ Next plugin.Handler }

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler. Success without a message says that the
// query has been dealt with.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o, ok := origin.FromContext(ctx)
	if !ok || o.Resumer == nil {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if err := o.Resumer.Resume(); err != nil {
		return dns.RcodeServerFailure, plugin.Error(name, err)
	}
	return dns.RcodeSuccess, nil
}
