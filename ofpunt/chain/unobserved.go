// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// An explained query skips observers: no guest has asked it.

// observerRun is a range [first, end) of observers in a chain.
type observerRun struct{ first, end int }

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

// unobservedRun makes the handler that skips a run of observers. One goroutine makes handlers, from the end of a chain
// to its begin.
type unobservedRun struct {
	names  []string
	behind plugin.Handler
}

// last wraps the last plugin of the run, and records the handler behind.
func (u *unobservedRun) last(p plugin.Plugin) plugin.Plugin {
	return func(next plugin.Handler) plugin.Handler {
		u.behind = next
		return p(next)
	}
}

func (u *unobservedRun) enter(next plugin.Handler) plugin.Handler {
	return &unobserved{observer: next, behind: u.behind, names: u.names}
}

type unobserved struct {
	observer, behind plugin.Handler
	names            []string
}

func (*unobserved) Name() string { return name }

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
