// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"net/netip"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// A server of a zone may be a guest of the node, whose own queries come here. One that it sends
// in order to answer ours must not be sent to it.

// maxRepeats is how many other queries with the same question a guest may have in flight, before
// the next one counts as a loop: a server behind NAT has an address that OVN does not show as the
// guest's.
const maxRepeats = 8

// exchange is what is asked of an origin.Exchange, where that knows it.
type exchange interface {
	// InFlightOfGuest returns how many queries of the guest are in flight, this one among them.
	InFlightOfGuest() int64
	// RepeatsOfGuest returns how many other queries of the guest with the question are in flight.
	RepeatsOfGuest() int
	// SetLooped says that the query is one of a loop.
	SetLooped()
}

// isServer reports whether a query for a zone comes from one of the servers of the zone.
func isServer(o *origin.Origin, s *ovn.Snapshot, z *ovn.Forward) bool {
	if o == nil {
		return false
	}
	p := s.PortByName(o.Port)
	return p != nil && slices.ContainsFunc(z.Servers, func(server netip.AddrPort) bool {
		return slices.Contains(p.Addresses, server.Addr())
	})
}

// isRepeated reports whether too many queries of the guest with the question are in flight. Those
// that *cache* has answered are no loop: so it is asked below *cache*.
func isRepeated(ctx context.Context) bool {
	x, _ := origin.ExchangeFromContext(ctx)
	e, ok := x.(exchange)
	// To count the repeats takes a look at all queries in flight.
	return ok && e.InFlightOfGuest() > maxRepeats && e.RepeatsOfGuest() >= maxRepeats
}

// breakLoop ends a query that would loop: in hijack mode it goes on to the server that the guest
// has asked.
func (h *Handler) breakLoop(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	count(ctx, outcomeLoop)
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
