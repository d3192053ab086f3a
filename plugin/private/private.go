// SPDX-License-Identifier: Apache-2.0

// Package private is a CoreDNS plugin that keeps private names on the node: names with a meaning in one
// network only, which no server outside can answer. It stands below all plugins that have names, and above
// all plugins that ask other servers:
//
//	ovnhosts, neutronhosts, cache, template, hosts, file
//	  │ what they don't know
//	  ▼
//	find ─┬─ in a zone, or a single label ─► authority.EmptyZone, Deny ─► reply
//	      │                    └─ in hijack mode ─► on to its destination
//	      └─ any other name ─► forward, passthrough
//	                             └─ answer ─► rebindFilter ─► reply
//
// Its answers are the same for all askers, so that cache above may store them. It has no state,
// no goroutine and no lock.
package private

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
)

// Name is the name of the directive.
const Name = "private"

// Handler answers for private names, and passes on all others. It does not change after setup.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	table table
	// singleLabels is set where names of one label are private.
	singleLabels bool
	ttl          uint32 // seconds
	rebind       rebindOptions
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return Name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	if plugin.Zones(h.Zones).Matches(state.Name()) == "" {
		return plugin.NextOrFailure(Name, h.Next, ctx, w, r)
	}
	m, of := h.reply(&state)
	explained := explain.Of(ctx)
	if m == nil {
		if explained != nil {
			explained.Notef("no private name")
		}
		return h.pass(ctx, state)
	}
	if explained != nil {
		explained.Notef("a private name (%s)", of)
	}
	// A guest that chose its server may have chosen a server of its network, which has these names.
	if o, punted := origin.FromContext(ctx); punted && o.Hijacked {
		if handled, code, err := origin.Resume(ctx, w, r); err != nil {
			return code, plugin.Error(Name, err)
		} else if handled {
			return code, nil
		}
	}
	if state.QClass() != dns.ClassINET {
		return dns.RcodeRefused, nil
	}
	if explained != nil {
		h.explain(explained, &state, m, of)
	} else {
		answers.WithLabelValues(metrics.WithServer(ctx), metrics.WithView(ctx), string(of), outcome(m)).Inc()
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(Name, err)
	}
	return dns.RcodeSuccess, nil
}

// reply returns the answer to a question for a private name and the class of that, nil for any
// other name.
func (h *Handler) reply(state *request.Request) (*dns.Msg, class) {
	qname, qtype := state.Name(), state.QType()
	z, excepted := h.table.find(qname, qtype)
	switch {
	case excepted:
		return nil, ""
	case z != nil:
		return z.Reply(state, h.table.exists(qname)), z.class
	case h.singleLabels && isSingleLabel(qname, qtype) && !h.table.exists(qname):
		return authority.Deny(state, dns.RcodeNameError, h.ttl), classSingleLabel
	}
	return nil, ""
}

// outcome is the label of an answer.
func outcome(m *dns.Msg) string {
	switch {
	case m.Rcode == dns.RcodeNameError:
		return "nxdomain"
	case len(m.Answer) == 0:
		return "nodata"
	}
	return "data"
}
