// SPDX-License-Identifier: Apache-2.0

// Package ovnforward is a CoreDNS plugin that forwards zones of a network to DNS servers that the
// network names in OVN. Which zones these are comes with the snapshots of package ovn.
//
//	query ─► find: network, zone ─┬─► none ─► the next plugin
//	                              └─► cachekey.Route ─► cache ─┬─► answer
//	                                    │ without cache        ▼
//	                                    └──────────────► forwarder ─► policy ─► pool ─► servers
//
// The policy (policy.go) says which servers may be asked, by the Corefile and by the addresses and
// routes of the node (nodeaddresses.go, noderoute.go). It is asked for each query. The pool (pool.go) has the servers that are in
// use, each with its connections and its health, which are those of CoreDNS's package proxy.
//
// # Goroutines and locks
//
// Queries are handled on the goroutines of their servers. A query that no zone has takes no lock.
// One goroutine of each Handler follows the snapshots (review.go): it logs what is refused, and
// stops servers that nobody names any more. A server has two goroutines of package proxy, one of
// which runs only while it does not answer.
//
//	pool.mu         the servers that are in use
//	nodeReader.mu   held while the addresses of the node are read
//	handlersMu      which Handlers are open, for metrics
package ovnforward

import (
	"context"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// Name is that of the directive.
const Name = "ovnforward"

var log = clog.NewWithPlugin(Name)

// Handler forwards the zones of the asker's network.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	options
	directive *corefile.Directive
	// database and defaultSwitch are those of ovnhosts in the block.
	database      ovn.Config
	defaultSwitch ovn.SwitchRef

	// The fields below are set by open.

	// throughCache is set where the queries go through *cache*, which keeps answers apart.
	throughCache bool
	source       *ovn.Source
	policy       *policy
	node         *nodeReader
	pool         *pool
	reviewer     *reviewer
	// closeOnce undoes open.
	closeOnce func()
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return Name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o, _ := origin.FromContext(ctx)
	snapshot := h.source.Snapshot()
	n := h.network(o, snapshot)
	if n == nil || n.Forwards == nil {
		return plugin.NextOrFailure(Name, h.Next, ctx, w, r)
	}
	state := request.Request{W: w, Req: r}
	z := h.find(n, state.Name(), state.QType())
	if z == nil {
		return plugin.NextOrFailure(Name, h.Next, ctx, w, r)
	}
	switch class, qtype := state.QClass(), state.QType(); {
	case r.Opcode != dns.OpcodeQuery:
		return dns.RcodeNotImplemented, nil
	case class != dns.ClassINET && class != dns.ClassANY, qtype == dns.TypeAXFR, qtype == dns.TypeIXFR:
		return dns.RcodeRefused, nil
	case isServer(o, snapshot, z):
		return h.breakLoop(ctx, z, w, r)
	}
	f := &forwarder{handler: h, zone: z}
	w = &errorAnnotator{w, r, f}
	if h.throughCache {
		return plugin.NextOrFailure(Name, h.Next, cachekey.Route(ctx, z.Key, f), w, r)
	}
	return f.ServeDNS(ctx, w, r)
}

// find returns the zone of a network that has a name, nil for none.
func (h *Handler) find(n *ovn.Network, qname string, qtype uint16) *ovn.Forward {
	z := n.Forwards.Find(qname, qtype)
	if z == nil || plugin.Zones(h.Zones).Matches(qname) == "" {
		return nil
	}
	return z
}

// Forwards reports whether a network has named servers for a name, which is in lower case: then
// ovnhosts, above, does not deny it.
func (h *Handler) Forwards(n *ovn.Network, qname string, qtype uint16) bool {
	return h.find(n, qname, qtype) != nil
}

// network returns the network of an asker, nil if it is not known. o is nil for a query from a
// socket.
func (h *Handler) network(o *origin.Origin, s *ovn.Snapshot) *ovn.Network {
	if o != nil {
		return s.Network(o.Network)
	}
	if h.defaultSwitch.IsZero() {
		return nil
	}
	n, _ := s.Resolve(h.defaultSwitch)
	return n
}
