// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// A server that forward asks may be a guest of the bridge, whose own queries are
// punted. What it asks because it was asked must not be forwarded to it once more.

// maxRepeats is how many queries with one question a guest may have in flight in front
// of forward in hijack mode, once it has that many in all. It is for servers that are
// asked by an address that OVN does not show as the guest's, such as one behind NAT.
// Guests that ask so often by themselves are sent to the server that they asked.
//
// In service mode it bounds what a guest that forward asks begins itself.
const maxRepeats = 8

// guardForwards puts a guard in front of each forward of configs.
func guardForwards(configs []*dnsserver.Config) {
	for _, c := range configs {
		// The zones of one block share the slice.
		c.Plugin = slices.Clone(c.Plugin)
		for i, p := range c.Plugin {
			c.Plugin[i] = func(next plugin.Handler) plugin.Handler {
				h := p(next)
				if f, ok := h.(*forward.Forward); ok {
					return &guard{Forward: f, upstreams: upstreamsOf(f)}
				}
				return h
			}
		}
	}
}

// guard is a forward that does not ask a guest what that guest asks. It embeds the
// other one, so that it is found under its name.
type guard struct {
	*forward.Forward
	upstreams []netip.Addr
}

// upstreamsOf are the addresses that f asks.
func upstreamsOf(f *forward.Forward) []netip.Addr {
	var all []netip.Addr
	for _, p := range f.List() {
		if a, err := netip.ParseAddrPort(p.Addr()); err == nil {
			all = append(all, a.Addr().Unmap().WithZone(""))
		}
	}
	return all
}

// ServeDNS implements plugin.Handler.
func (g *guard) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x, ok := punt.FromContext(ctx)
	if !ok || !g.loops(ctx, x) {
		return g.Forward.ServeDNS(ctx, w, r)
	}
	x.SetLooped()
	if serverOf(ctx).options.hijack() {
		return onward{}.ServeDNS(ctx, w, r)
	}
	return dns.RcodeServerFailure, nil
}

// loops reports whether forward would ask the guest of a query what the guest asks.
//
// In hijack mode a guest that forward asks is never sent back to itself: a resolver asks
// other questions than it is asked, and would wait for its own answer. In service mode
// it has to be the question of another guest's query in flight, since the guest may be a
// server for some names, and ask for others as any guest does; or be another one than
// forward asks, with the same address in a network of its own.
func (g *guard) loops(ctx context.Context, x *punt.Exchange) bool {
	s := serverOf(ctx)
	asksIt := s.hasOneOf(ctx, g.upstreams)
	if s.options.hijack() {
		return asksIt || x.InFlightOfGuest() > maxRepeats && x.RepeatsOfGuest() >= maxRepeats
	}
	return asksIt && repeats(x.RepeatsOfGuest(), x.Repeats())
}

// repeats reports whether a guest that forward asks asks what it was asked itself, by the
// number of other queries in flight that are the same: its own, and those of all.
func repeats(own, all int) bool { return all > own || own >= maxRepeats }

// hasOneOf reports whether the guest of a query has one of the addresses.
func (s *server) hasOneOf(ctx context.Context, addresses []netip.Addr) bool {
	o, ok := origin.FromContext(ctx)
	if !ok || s.source == nil || len(addresses) == 0 {
		return false
	}
	_, ok = addressOf(s.source.Snapshot().PortByName(o.Port), addresses)
	return ok
}

// addressOf is an address of the port that is among others.
func addressOf(p *ovn.Port, among []netip.Addr) (netip.Addr, bool) {
	if p == nil {
		return netip.Addr{}, false
	}
	i := slices.IndexFunc(p.Addresses, func(a netip.Addr) bool { return slices.Contains(among, a) })
	if i < 0 {
		return netip.Addr{}, false
	}
	return p.Addresses[i], true
}

// tellLoops warns of guests of the snapshot that a forward of the server asks, once of
// each. The goroutine that holds the flows calls it.
func (s *server) tellLoops(snapshot *ovn.Snapshot) {
	if snapshot == nil {
		return
	}
	for _, b := range s.forwards {
		for p := range snapshot.Guests() {
			a, ok := addressOf(p, b.upstreams)
			if !ok {
				continue
			}
			key := fmt.Sprint(b.of, " ", p.Name, " ", a)
			if s.loopsTold[key] {
				continue
			}
			if s.loopsTold == nil {
				s.loopsTold = map[string]bool{}
			}
			s.loopsTold[key] = true
			what := "what it asks while it is asked the same gets SERVFAIL"
			if s.options.hijack() {
				what = "its own queries are not forwarded, they go on to their destination"
			}
			log.Warningf("%s - ofpunt %s: forward asks %s, which is %s of switch %s on this bridge: %s", b.of, s.options.Bridge, a, p.Name, p.SwitchName, what)
		}
	}
}

// forwards are the addresses that the forwards of one block ask.
type forwards struct {
	of        *block
	upstreams []netip.Addr
}

// forwardsOf collects those of the zone c of a block.
func forwardsOf(b *block, c *dnsserver.Config) (f forwards) {
	f.of = b
	h := c.Handler("forward")
	for {
		g, ok := h.(*guard)
		if !ok {
			return f
		}
		f.upstreams = append(f.upstreams, g.upstreams...)
		h = g.Next
	}
}
