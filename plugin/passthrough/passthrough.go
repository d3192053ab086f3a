// SPDX-License-Identifier: Apache-2.0

// Package passthrough is a CoreDNS plugin that resumes a punted query: the switch sends it
// on to the server that the guest has chosen. It has no state.
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

// Handler is to be the last of a chain. A query from a socket, or one whose packet the
// switch does not hold, goes to the next plugin if there is one.
type Handler struct{ Next plugin.Handler }

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler. Without a message, NOERROR says that the query is
// resumed.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	handled, code, err := origin.Resume(ctx, w, r)
	switch _, punted := origin.FromContext(ctx); {
	case err != nil:
		return code, plugin.Error(name, err)
	case handled:
		return code, nil
	case punted && h.Next == nil:
		// It came over TCP. There is no error, as cache would store a SERVFAIL with one and
		// answer other guests with it.
		return dns.RcodeServerFailure, nil
	}
	return plugin.NextOrFailure(name, h.Next, ctx, w, r)
}
