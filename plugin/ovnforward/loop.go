// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// exchange is the loop detection of some origin.Exchange.
type exchange interface {
	// IsRepeated reports whether the queries with one question in flight are so many that they count as a
	// loop. A zone's server may be a guest whose address OVN does not show.
	IsRepeated() bool
	SetLooped()
}

func isServer(o *origin.Origin, s *ovn.Snapshot, z *ovn.Forward) bool {
	if o == nil {
		return false
	}
	p := s.PortByName(o.Port)
	return p != nil && slices.ContainsFunc(z.Servers, func(server netip.AddrPort) bool {
		return slices.Contains(p.Addresses, server.Addr())
	})
}

// isRepeated is called below *cache*: cached answers are no loop.
func isRepeated(ctx context.Context) bool {
	x, _ := origin.ExchangeFromContext(ctx)
	e, ok := x.(exchange)
	return ok && e.IsRepeated()
}

func explainLoop(x *explain.Step, z *ovn.Forward) {
	x.Notef("not asked: the query is from a server of the zone %s, or repeats itself, which is a loop", z.Zone)
	x.Find(explain.Finding{
		Code: api.CodeLoop, Text: fmt.Sprintf("a loop: zone %s, named by %s, is forwarded to %v, and the query is from one of these servers, or repeats itself", z.Zone, z.NamedBy, z.Servers),
		Remedy: "a server of the zone has to know its names by itself, or ask another server for them than a resolver address of its network",
	})
}

// breakLoop resumes the query in hijack mode.
func (h *Handler) breakLoop(ctx context.Context, z *ovn.Forward, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if x := explain.Of(ctx); x != nil {
		explainLoop(x, z) // not counted
	} else {
		requests.Inc(ctx, outcomeLoop)
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
