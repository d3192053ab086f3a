// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// exchange is the part of an origin.Exchange that detects loops. Not all have it.
type exchange interface {
	// IsRepeated reports whether the guest has so many queries with the same question in flight that they
	// count as a loop. A server of a zone may be a guest of the node, with an address that OVN does not
	// show.
	IsRepeated() bool
	// SetLooped records that the query is part of a loop.
	SetLooped()
}

// isServer reports whether a query for a zone comes from a server of the zone.
func isServer(o *origin.Origin, s *ovn.Snapshot, z *ovn.Forward) bool {
	if o == nil {
		return false
	}
	p := s.PortByName(o.Port)
	return p != nil && slices.ContainsFunc(z.Servers, func(server netip.AddrPort) bool {
		return slices.Contains(p.Addresses, server.Addr())
	})
}

// isRepeated reports whether a query counts as a loop because of its repeats. It is called below *cache*: queries
// that *cache* answers are no loop.
func isRepeated(ctx context.Context) bool {
	x, _ := origin.ExchangeFromContext(ctx)
	e, ok := x.(exchange)
	return ok && e.IsRepeated()
}

// explainLoop reports that a query is not forwarded.
func explainLoop(x *explain.Step, z *ovn.Forward) {
	x.Notef("not asked: the query is from a server of the zone %s, or repeats itself, which is a loop", z.Zone)
	x.Find(explain.Finding{
		Code: explain.Loop, Text: fmt.Sprintf("a loop: zone %s, named by %s, is forwarded to %v, and the query is from one of these servers, or repeats itself", z.Zone, z.NamedBy, z.Servers),
		Remedy: "a server of the zone has to know its names by itself, or ask another server for them than a resolver address of its network",
	})
}

// breakLoop ends a query that would loop. In hijack mode it goes to the server that the guest has asked.
func (h *Handler) breakLoop(ctx context.Context, z *ovn.Forward, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x := explain.Of(ctx); x != nil {
		explainLoop(x, z) // and it is not counted
	} else {
		count(ctx, outcomeLoop)
	}
	x, _ := origin.ExchangeFromContext(ctx)
	if e, ok := x.(exchange); ok {
		e.SetLooped()
	}
	if o, punted := origin.FromContext(ctx); punted && o.Hijacked {
		if handled, code, err := origin.Resume(ctx, w, r); err != nil {
			return code, plugin.Error(Name, err)
		} else if handled {
			return code, nil
		}
	}
	return dns.RcodeServerFailure, nil
}
