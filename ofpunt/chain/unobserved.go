// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// A query that an operator explains goes past plugins that observe queries: the guest has not asked it.

// observerRun is a part of a chain that has nothing but observers, from first up to and without end.
type observerRun struct{ first, end int }

// observersAmong returns the runs of observers among the plugins of a chain.
func observersAmong(names []string) (runs []observerRun) {
	for i, n := range names {
		switch last := len(runs) - 1; {
		case !traits.Has(n, traits.Observes):
		case last >= 0 && runs[last].end == i:
			runs[last].end++
		default:
			runs = append(runs, observerRun{i, i + 1})
		}
	}
	return runs
}

// unobservedRun makes the handler before a run of observers, which goes past them. Handlers are made
// from the end of a chain to its begin, and by one goroutine.
type unobservedRun struct {
	names  []string
	behind plugin.Handler
}

// last returns the last plugin of the run. The plugin records the handler behind it.
func (u *unobservedRun) last(p plugin.Plugin) plugin.Plugin {
	return func(next plugin.Handler) plugin.Handler {
		u.behind = next
		return p(next)
	}
}

func (u *unobservedRun) enter(next plugin.Handler) plugin.Handler {
	return &unobserved{observer: next, behind: u.behind, names: u.names}
}

// unobserved stands before a run of observers.
type unobserved struct {
	observer, behind plugin.Handler
	names            []string
}

// Name implements plugin.Handler.
func (*unobserved) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *unobserved) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x := explain.Of(ctx)
	if x == nil {
		return h.observer.ServeDNS(ctx, w, r)
	}
	for _, n := range h.names {
		x.Leave(n)
	}
	return plugin.NextOrFailure(name, h.behind, ctx, w, r)
}
