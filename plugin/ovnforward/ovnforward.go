// SPDX-License-Identifier: Apache-2.0

// Package ovnforward is a CoreDNS plugin that forwards zones to the DNS servers that a network names in OVN.
// Package ovn has the zones.
//
//	query ─► find: network, zone ─┬─► none ─► the next plugin
//	                              └─► cachekey.Route ─► cache ─┬─► answer
//	                                    │ without cache        ▼
//	                                    └──────────────► forwarder ─► policy ─► pool ─► servers
//
// The policy (policy.go) permits servers by the Corefile and the node's addresses and routes
// (package address). The pool (pool.go) has the servers in use, with connections and health
// checks of CoreDNS's package proxy.
//
// # Goroutines and locks
//
// Queries run on the goroutines of their servers; one in no zone takes no lock. One goroutine of each Handler
// follows snapshots (review.go): it logs refused servers, and stops unnamed ones. A server has two goroutines
// of package proxy, one only while the server is down.
//
//	pool.mu         the servers in use
//	handlersMu      the open Handlers, for metrics
package ovnforward

import (
	"context"
	"time"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// Name is the name of the directive.
const Name = "ovnforward"

var log = clog.NewWithPlugin(Name)

// Handler forwards the zones of the asker's network.
type Handler struct {
	Next  plugin.Handler
	Zones []string

	options
	directive *corefile.Directive
	// database and defaultSwitch are from ovnhosts in the block.
	database      ovndb.Config
	defaultSwitch ovn.SwitchRef
	// lastAttempt is when the last attempt may begin. Tests raise it.
	lastAttempt time.Duration

	// The fields below are set by open.

	// throughCache is set if queries go through *cache*, with a cache key variant for each zone.
	throughCache bool
	source       *ovndb.Source
	policy       *policy
	node         *address.NodeReader
	pool         *pool
	reviewer     *reviewer
	closeOnce    func()
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

func (h *Handler) find(n *ovn.Network, qname string, qtype uint16) *ovn.Forward {
	z := n.Forwards.Find(qname, qtype)
	if z == nil || plugin.Zones(h.Zones).Matches(qname) == "" {
		return nil
	}
	return z
}

// Forwards reports whether a network's servers take a lower-case name, which ovnhosts then does not deny.
func (h *Handler) Forwards(n *ovn.Network, qname string, qtype uint16) bool {
	return h.find(n, qname, qtype) != nil
}

// Takes reports whether a guest's network forwards a lower-case name.
func (h *Handler) Takes(o *origin.Origin, qname string, qtype uint16) bool {
	n := h.network(o, h.source.Snapshot())
	return n != nil && n.Forwards != nil && h.find(n, qname, qtype) != nil
}

// network returns nil if unknown. o is nil for a query from a socket.
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
