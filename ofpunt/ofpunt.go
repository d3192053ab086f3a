// SPDX-License-Identifier: Apache-2.0

// Package ofpunt is the CoreDNS plugin that takes its queries from an Open
// vSwitch bridge instead of a socket: flows punt each DNS packet of a guest to
// this process (an OpenFlow packet-in), the server blocks that name the bridge
// answer it, and the answer returns through the port it came from (a
// packet-out).
//
// The package makes servers of a Corefile and connects them to bridges. It knows CoreDNS, and
// which guests there are. Which flows are installed, and that a lost one is put back, is
// decided in package flows; what becomes of a punted packet, in package punt; what is cached for
// whom, in package tenantcache.
//
// # The life of a bridge
//
// The first server that names a bridge starts it, and it lives on through reloads until no
// server names it (registry). It has one session after the other, a session being one
// OpenFlow connection.
//
//	Corefile ──setServer──► bridge ──connect──► session ──Want (desired.go)──► flows.Reconciler
//	                          ▲ │                  ▲ │                                │
//	local database ───────────┘ └──ports.Owners────┘ └──────────────◄── Report (report.go)
//	(localwatch.go)                                       log, metrics, readiness
//
// # The life of a Corefile
//
// An [instance] is one reading of a Corefile, with a server for each bridge that it names.
//
//	setup           one block is parsed                      setup.go, package config
//	finishParsing   blocks are checked, our handlers added   labels.go, ownhandlers.go
//	build           servers are compiled                     compile.go
//	takeOver        the bridges get the new servers          instance.go
//	shutDown        the old servers drain                    instance.go
//
// A reload (SIGUSR1 or the plugin reload, in internal/lifecycle) calls [Try] first: reloadtrial.go
// looks whether what the new Corefile names is there. Only if it is, caddy gets the Corefile.
// If a later plugin fails to start, rollBack gives the bridges to the old servers again.
//
// # Goroutines and locks
//
// Each bridge has these goroutines: run makes the sessions, and within one it is the owner of
// the flows (session.run): it alone calls the Reconciler, desired and reporter. The reader of
// the connection calls session.handler, which must not block. followLocal reads the local
// database. For each view of it awaitDrained waits for a barrier. When the database goes away,
// askSwitch waits for a barrier, too. For each session that a reload replaces, retire waits until
// it is drained.
//
//	registry.mu       which bridges there are
//	serving           which instance has them; held during takeOver, rollBack and stop
//	bridge.mu         who reads the local database, and what was logged of it
//	stall.mu          whether the switch waits for the local ovsdb-server
//	acceptedConns.mu  connections that switches have made during a trial
//	stage.mu          the callback that is to be added behind those of all plugins
//
// What an operator asks by the control socket (package control) is answered on goroutines of its
// own, by the files tell*.go: from snapshots, and from what the session tells of itself in an atomic
// pointer (bridge.told). hitCounter.turn lets one of them at a time ask the switch for counters. Those
// who watch queries (tellwatch.go) have a goroutine of the server's each, which reads a ring.
//
// No query takes any of them: who answers, the connection and the owners of ports are read
// from atomic pointers. The order is serving, registry.mu, bridge.mu, and
// then the lock of an ovndb.Source. Under stall.mu no other is taken.
package ofpunt

import (
	"context"
	"net/netip"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/label"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

const name = "ofpunt"

var log = clog.NewWithPlugin(name)

// Handler stands first in the chain of a server block with ofpunt. It distinguishes the
// guest's own question from the lookups of plugins, and gives the plugins behind it
// metadata, the metric of durations, and readiness. It answers nothing itself, but refuses zone
// transfers in a block without the plugin for them.
type Handler struct {
	Next plugin.Handler

	// labels are those that the block names.
	labels []label.Label
	// taken is what a query is told that comes to the block. The punt server sets it before the first
	// query.
	taken punt.Block
	// transfers is set where the block has transfer: other blocks refuse zone transfers. It is
	// not in hijack mode, as transfer answers over TCP only, which is not punted there. The punt
	// server sets it before the first query.
	transfers bool
	// resolvers are the resolver addresses that the Corefile names for all guests. The punt server
	// sets them before the first query.
	resolvers []netip.Addr
	// block is that of the Corefile, nil behind all blocks.
	block *block
	// beyond is set behind all blocks, where a query comes that none of them takes.
	beyond bool
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ResolverAddresses returns the addresses that the Corefile names for all guests to ask at. They
// are known once the servers are compiled.
func (h *Handler) ResolverAddresses() []netip.Addr { return h.resolvers }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	x, punted := punt.FromContext(ctx)
	explained := explain.Of(ctx)
	if explained != nil {
		h.take(ctx, explained)
	}
	if !punted || r != x.Request() {
		if o, ok := origin.FromContext(ctx); ok && punted {
			ctx = newLookupContext(ctx, o)
		}
		tenantcache.MarkLookup(ctx)
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if !h.beyond {
		x.SetBlock(&h.taken)
	}
	if !h.transfers && isTransfer(r) {
		x.RefuseTransfer()
		return dns.RcodeSuccess, nil // there is no more to write
	}
	code, err := plugin.NextOrFailure(name, h.Next, ctx, w, r)
	if explained != nil {
		explained.Fail(err)
		return code, err
	}
	serverOf(ctx).duration(metrics.WithView(ctx)).Observe(time.Since(x.Arrived()).Seconds())
	return code, err
}

// Metadata implements metadata.Provider: the origin of a punted query, by the labels that the
// block names.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	o, ok := origin.FromContext(ctx)
	if !ok {
		return ctx
	}
	for i := range h.labels {
		l := &h.labels[i]
		metadata.SetValueFunc(ctx, l.Name, func() string { return l.Value(o) })
	}
	return ctx
}

// Ready implements ready.Readiness. It reports whether all bridges of the process are served:
// the plugin ready has one result for all handlers of a name.
func (*Handler) Ready() bool { return bridges.ready() }

// NotReady implements ready.Explainer.
func (*Handler) NotReady() []string { return NotReady() }

// NotReady returns a reason for each bridge of the process that is not served, and one if there
// is no bridge yet.
func NotReady() []string { return bridges.notReady() }
