// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// loopGuard is a forward that does not ask a guest what that guest asks. It embeds the forward,
// so that CoreDNS finds it by the same name. Of several forwards in a block it is the first: that has
// the others behind it, which it calls itself.
type loopGuard struct {
	*forward.Forward
	upstreams []netip.Addr // what the forward asks, and those behind it
	hijack    bool
	hedge     *hedge // nil for none
}

// forwardsOf returns a *forward* and each *forward* that stands behind it in the block, in their order.
func forwardsOf(f *forward.Forward) (all []*forward.Forward) {
	for ok := true; ok; f, ok = f.Next.(*forward.Forward) {
		all = append(all, f)
	}
	return all
}

// upstreamsOf returns the addresses that f asks, and the forwards behind it.
func upstreamsOf(f *forward.Forward) (all []netip.Addr) {
	for _, f := range forwardsOf(f) {
		for _, p := range f.List() {
			if a, err := netip.ParseAddrPort(p.Addr()); err == nil {
				all = append(all, a.Addr().Unmap().WithZone(""))
			}
		}
	}
	return all
}

// ServeDNS implements plugin.Handler.
func (g *loopGuard) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x, ok := punt.FromContext(ctx)
	explained := explain.Of(ctx)
	if !ok || !g.wouldLoop(ctx, x) {
		if explained != nil {
			return g.explain(ctx, explained, w, r)
		}
		if g.hedge != nil {
			return g.hedge.serve(ctx, g.Forward, w, r)
		}
		if ok && x.WantsUpstream() {
			ctx = noteUpstream(ctx, x)
		}
		return g.Forward.ServeDNS(ctx, w, r)
	}
	if explained != nil {
		g.explainLoop(explained)
	}
	x.SetLooped()
	if g.hijack {
		return resumeUnanswered{}.ServeDNS(ctx, w, r)
	}
	return dns.RcodeServerFailure, nil
}

// wouldLoop reports whether forward would ask the guest of a query what the guest asks.
//
// In hijack mode no query of a guest that forward asks is forwarded: a resolver asks other questions than it
// is asked, and would wait for its own answer. In service mode it is a loop only if another guest's query
// with the same question is in flight: the guest may be a server for some names, and ask for others as any
// guest does. Another guest may also have the address of the upstream in its network.
func (g *loopGuard) wouldLoop(ctx context.Context, x *punt.Exchange) bool {
	asksIt := hasOneOf(ctx, g.upstreams)
	if g.hijack {
		return asksIt || x.IsRepeated()
	}
	return asksIt && x.IsPassedOn()
}

// hasOneOf reports whether the port of a query's guest has one of the addresses.
func hasOneOf(ctx context.Context, addresses []netip.Addr) bool {
	o, ok := origin.FromContext(ctx)
	if !ok || len(addresses) == 0 {
		return false
	}
	p, _ := o.Attributes.(*ovn.Port)
	_, ok = guests.AddressOf(p, addresses)
	return ok
}

// Loops returns a warning for each guest of the snapshot, nil for none, that a *forward* of the server asks.
func (s *Server) Loops(snapshot *ovn.Snapshot) (warnings []string) {
	if snapshot == nil {
		return nil
	}
	effect := "what it asks while it is asked the same gets SERVFAIL"
	if s.Options.Hijack() {
		effect = "its own queries are not forwarded, they go on to their destination"
	}
	for _, b := range s.upstreams {
		for p := range snapshot.Guests() {
			if a, ok := guests.AddressOf(p, b.addresses); ok {
				warnings = append(warnings, fmt.Sprintf("%s - ofpunt %s: forward asks %s, which is port %q of switch %s on this bridge: %s",
					b.block, s.Options.Name, a, p.Name, guests.NetworkName{ID: p.Network, Switch: p.SwitchName}, effect))
			}
		}
	}
	return warnings
}

// blockUpstreams are what the forwards of one block ask.
type blockUpstreams struct {
	block     *Block
	forwards  []*forward.Forward // in the order of the block
	addresses []netip.Addr       // those of all of them
}

// upstreamsOfBlock returns the upstreams of a block, by the config of one of its zones.
func upstreamsOfBlock(b *Block, c *dnsserver.Config) (f blockUpstreams) {
	f.block = b
	if g, ok := c.Handler("forward").(*loopGuard); ok {
		f.forwards, f.addresses = forwardsOf(g.Forward), g.upstreams
	}
	return f
}

// failedChecks is how many health checks of a server have failed in a row before a warning. It is the default
// of max_fails in *forward*, which does not export its setting. After a query without an answer *forward*
// checks the server every half second, until the server answers.
const failedChecks = 2

// ReportUpstreams adds the servers that the forwards of the blocks ask and that do not answer: to the problems
// if a forward has no other server, else to the warnings.
func (s *Server) ReportUpstreams(to *api.Status) {
	for _, b := range s.upstreams {
		for _, f := range b.forwards {
			down, asked := downUpstreams(f)
			if len(down) == 0 {
				continue
			}
			p := api.Problem{Code: api.CodeUpstreams, About: b.block.String()}
			if len(down) == asked {
				p.Text = "no server that forward asks answers: " + strings.Join(down, " ")
				to.Problems = append(to.Problems, p)
				continue
			}
			p.Text = fmt.Sprintf("forward asks %d servers, and of these do not answer: %s", asked, strings.Join(down, " "))
			to.Warnings = append(to.Warnings, p)
		}
	}
}

// downUpstreams returns the servers of a forward that do not answer, sorted, and how many it asks.
func downUpstreams(f *forward.Forward) (down []string, asked int) {
	for _, p := range f.List() {
		if p.Down(failedChecks) {
			down = append(down, p.Addr())
		}
	}
	slices.Sort(down)
	return down, f.Len()
}
