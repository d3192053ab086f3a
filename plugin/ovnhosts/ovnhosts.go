// SPDX-License-Identifier: Apache-2.0

// Package ovnhosts is a CoreDNS plugin that answers each guest with its network's names from the OVN
// databases. Package origin identifies the guest, snapshots of package ovn have the names. The only state is
// the open databases and a record of logged networks.
//
//	query ─► asker: scope and domain ─► lookup ─► authority.Policy.Answer ─┬─► reply
//	                                                                       └─► the next plugin
//
// Queries run on the goroutines of their servers, without a lock. openSources.mu guards the open databases,
// for reloads, ready and metrics.
package ovnhosts

import (
	"context"
	"fmt"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

const name = "ovnhosts"

var (
	log  = clog.NewWithPlugin(name)
	self = &authority.Plugin{Name: name, Answers: answers}
)

// Handler answers with the names of the asker's network.
type Handler struct {
	Next  plugin.Handler
	Zones []string
	// Policy has the domain of ports without one in OVN.
	authority.Policy

	// defaultSwitch is for queries from a socket, zero for none.
	defaultSwitch ovn.SwitchRef
	// routers adds the networks that routers join to the asker's.
	routers bool

	config    ovndb.Config
	directive *corefile.Directive
	// forwarder is the block's ovnforward, nil for none. It is set before the first query.
	forwarder forwarder
	// source is set by open.
	source *ovndb.Source
	// release undoes open, once; nil before open.
	release func()
	unread  unreadLog
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// Database returns the databases, from which the punt server reads its guests too.
func (h *Handler) Database() ovndb.Config { return h.config }

// DefaultSwitch returns the switch for queries from a socket, zero for none.
func (h *Handler) DefaultSwitch() ovn.SwitchRef { return h.defaultSwitch }

// At returns the directive's position.
func (h *Handler) At() corefile.Position { return h.directive.At }

// Covers reports whether all names of a zone are in the handler's zones.
func (h *Handler) Covers(zone string) bool { return plugin.Zones(h.Zones).Matches(zone) != "" }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	qname := state.Name()
	zone := plugin.Zones(h.Zones).Matches(qname)
	// No network has the root; to deny it would deny all names (RFC 8020).
	if zone == "" || qname == "." {
		if x := explain.Of(ctx); x != nil {
			h.explainSkipped(x, nil, zone)
		}
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	snapshot := h.source.Snapshot()
	a := h.asker(ctx, snapshot)
	if a.scope.Own == nil && a.origin == nil && !h.defaultSwitch.IsZero() {
		// The next plugin would disclose and cache the name.
		return dns.RcodeServerFailure, plugin.Error(name, h.noDefaultSwitch(snapshot))
	}
	if a.scope.Own == nil {
		// Without a network there is no domain to deny names in.
		if x := explain.Of(ctx); x != nil {
			h.explainSkipped(x, a.origin, zone)
		}
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}

	cached, _ := ctx.Value(ovn.LookupCacheKey{}).(*ovn.LookupCache)
	known, found := cached.Lookup(snapshot, a.scope, qname, h.Domain)
	if x := explain.Of(ctx); x != nil {
		h.explain(x, snapshot, &a, qname, state.QType(), found)
	}
	if !found && a.unread {
		// CoreDNS would log an error for each query.
		h.unread.fails(a.scope.Own, h.config.Log)
		return dns.RcodeServerFailure, nil
	}
	if !a.unread {
		h.unread.isRead(a.scope.Own, h.config.Log)
	}
	return h.Answer(ctx, self, h.Next, authority.Question{
		State: state, Zones: h.Zones, Zone: zone, Known: known, Found: found, Time: snapshot.Time,
		Asker: authority.Asker{Scope: a.scope.Scope, Domain: a.domain, Origin: a.origin, Unread: a.unread, Forwards: h.forwardsOf(a.scope.Own, known, found)},
	})
}

// forwarder also takes names in the network's own domain.
type forwarder interface {
	Forwards(n *ovn.Network, qname string, qtype uint16) bool
}

// forwards is for a name that the network does not have.
func (h *Handler) forwards(n *ovn.Network, qname string, qtype uint16) bool {
	return h.forwarder != nil && h.forwarder.Forwards(n, qname, qtype)
}

// forwardsOf returns nil if not needed: the closure costs an allocation.
func (h *Handler) forwardsOf(n *ovn.Network, known names.Answer, found bool) func(qname string, qtype uint16) bool {
	if h.forwarder == nil || found && known.RRs.Alias() == "" {
		return nil
	}
	return func(qname string, qtype uint16) bool { return h.forwards(n, qname, qtype) }
}

func (h *Handler) noDefaultSwitch(s *ovn.Snapshot) error {
	if _, count := s.Resolve(h.defaultSwitch); count > 1 {
		return fmt.Errorf("the default switch %s is ambiguous: %d logical switches have that name; expected one, or a UUID", h.defaultSwitch, count)
	}
	return fmt.Errorf("the default switch %s is not known", h.defaultSwitch)
}

type asker struct {
	// scope is empty for an unknown asker.
	scope ovn.Scope
	// unread: the networks behind routers are not read, so no name can be denied.
	unread bool
	// domain is a lower-case FQDN, or empty.
	domain string
	// origin is nil for a query from a socket.
	origin *origin.Origin
}

func (h *Handler) asker(ctx context.Context, s *ovn.Snapshot) (a asker) {
	var id origin.Network
	if o, punted := origin.FromContext(ctx); punted {
		a.origin, id = o, o.Network
	} else if n, _ := s.Resolve(h.defaultSwitch); n != nil {
		id = n.ID
	}
	if h.routers {
		a.scope = s.RouterScope(id)
	}
	if a.scope.Own == nil {
		a.scope = s.SwitchScope(id)
		a.unread = h.routers
	}
	if a.scope.Own == nil {
		return a
	}
	a.domain = a.scope.Own.Domain
	if a.origin != nil {
		if p := s.PortByName(a.origin.Port); p != nil && p.Network == id && p.Domain != "" {
			a.domain = p.Domain
		}
	}
	if a.domain == "" {
		a.domain = h.Domain
	}
	return a
}

// Ready reports on all handlers: plugin ready asks only one handler of each plugin name.
func (*Handler) Ready() bool { return openSources.ready() }

// NotReady implements ready.Explainer.
func (*Handler) NotReady() []string { return openSources.notReady() }

// Metadata implements metadata.Provider. The label ovnhosts/answer is "dns", "port", "zone", or empty.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	return self.Metadata(ctx)
}
