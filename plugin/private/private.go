// SPDX-License-Identifier: Apache-2.0

// Package private is a CoreDNS plugin that keeps names of private networks on the node: no server outside can answer
// them. It stands below all plugins with names, above all that query other servers:
//
//	ovnhosts, neutronhosts, cache, template, hosts, file
//	  │ unknown names
//	  ▼
//	find ─┬─ in a zone, or a single label ─► authority.EmptyZone, Deny ─► reply
//	      │                    └─ in hijack mode ─► on to its destination
//	      └─ any other name ─► forward, passthrough
//	                             └─ answer ─► rebindFilter ─► reply
//
// Answers are the same for all askers, so cache above may store them. private has no state, goroutine or lock.
package private

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
)

// Name is the name of the directive.
const Name = "private"

// Handler answers private names and passes on others. It does not change after setup.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	table table
	// singleLabels makes names of one label private.
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
	// The guest chose its server, which may be of its network and have the name.
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
		answers.Inc(ctx, string(of), outcome(m))
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(Name, err)
	}
	return dns.RcodeSuccess, nil
}

// reply returns nil for names that are not private.
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

func outcome(m *dns.Msg) string {
	switch {
	case m.Rcode == dns.RcodeNameError:
		return "nxdomain"
	case len(m.Answer) == 0:
		return "nodata"
	}
	return "data"
}
