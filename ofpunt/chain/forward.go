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

// loopGuard keeps a *forward* from asking a guest its own question. It embeds *forward*, so CoreDNS finds it by name,
// and wraps the first *forward* of a block, which calls the next ones itself.
type loopGuard struct {
	*forward.Forward
	upstreams []netip.Addr // of all forwards of the block
	hijack    bool
	hedge     *hedge // nil without hedge
}

// forwardsOf returns f and the forwards behind f.
func forwardsOf(f *forward.Forward) (all []*forward.Forward) {
	for ok := true; ok; f, ok = f.Next.(*forward.Forward) {
		all = append(all, f)
	}
	return all
}

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

// wouldLoop reports whether *forward* would ask the guest its own question.
//
// Hijack mode forwards no query of a guest that *forward* asks: a resolver asks other questions than it is asked, and
// would wait for its own answer. In service mode the guest may be server and client, or have the upstream's address in
// another network. So there a loop is only a question that another guest has in flight.
func (g *loopGuard) wouldLoop(ctx context.Context, x *punt.Exchange) bool {
	asksIt := hasOneOf(ctx, g.upstreams)
	if g.hijack {
		return asksIt || x.IsRepeated()
	}
	return asksIt && x.IsPassedOn()
}

// hasOneOf reports whether the guest of a query has one of the addresses.
func hasOneOf(ctx context.Context, addresses []netip.Addr) bool {
	o, ok := origin.FromContext(ctx)
	if !ok || len(addresses) == 0 {
		return false
	}
	p, _ := o.Attributes.(*ovn.Port)
	_, ok = guests.AddressOf(p, addresses)
	return ok
}

// Loops returns a warning for each guest that a *forward* asks. snapshot may be nil.
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

type blockUpstreams struct {
	block     *Block
	forwards  []*forward.Forward // in the order of the block
	addresses []netip.Addr       // of all forwards
}

// c is the config of any zone of the block.
func upstreamsOfBlock(b *Block, c *dnsserver.Config) (f blockUpstreams) {
	f.block = b
	if g, ok := c.Handler("forward").(*loopGuard); ok {
		f.forwards, f.addresses = forwardsOf(g.Forward), g.upstreams
	}
	return f
}

// failedChecks is the default of max_fails in *forward*, which does not export its setting. After a query without an
// answer, *forward* checks the server every half second.
const failedChecks = 2

// ReportUpstreams adds servers that do not answer to the warnings, or to the problems if their *forward* has no other.
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

func downUpstreams(f *forward.Forward) (down []string, asked int) {
	for _, p := range f.List() {
		if p.Down(failedChecks) {
			down = append(down, p.Addr())
		}
	}
	slices.Sort(down)
	return down, f.Len()
}
