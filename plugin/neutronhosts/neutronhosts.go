// SPDX-License-Identifier: Apache-2.0

// Package neutronhosts is a CoreDNS plugin that answers each guest with the names that Neutron's DHCP agent
// writes for the guest's network. Package origin identifies the guest, package addnhosts has the names.
//
//	query ─► network of the asker ─► lookup ─► authority.Policy.Answer ─┬─► reply
//	                                                                    └─► the next plugin
//
// Queries run on the goroutines of their servers, without a lock.
package neutronhosts

import (
	"context"
	"fmt"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/neutronhosts/addnhosts"
)

const name = "neutronhosts"

var (
	log  = clog.NewWithPlugin(name)
	self = &authority.Plugin{Name: name, Answers: answers}
)

// Handler answers with the names of the asker's network.
type Handler struct {
	Next  plugin.Handler
	Zones []string
	// Policy has the domain for files without one.
	authority.Policy

	path      string
	directive *corefile.Directive
	// source is set by open.
	source *addnhosts.Source
	// release releases source, once; nil before open.
	release func()
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	qname := state.Name()
	zone := plugin.Zones(h.Zones).Matches(qname)
	// No network has the root; to deny it would deny all names (RFC 8020).
	o, punted := origin.FromContext(ctx)
	if zone == "" || qname == "." || !punted {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	n, read := h.network(o)
	switch {
	case !read:
		// The next plugin might disclose and cache a network's name.
		return dns.RcodeServerFailure, nil
	case n == nil:
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	known, found := n.Lookup(qname, h.Domain)
	return h.Answer(ctx, self, h.Next, authority.Question{
		State: state, Zones: h.Zones, Zone: zone, Known: known, Found: found, Time: n.Time,
		Asker: authority.Asker{Scope: n.Scope, Domain: h.domainOf(n), Origin: o},
	})
}

// network returns nil without files, false while unread. Without OVN, Origin.Switch is the UUID of Neutron's
// agent in the local database.
func (h *Handler) network(o *origin.Origin) (n *addnhosts.Network, read bool) {
	s := h.source.Snapshot()
	if s == nil {
		return nil, false
	}
	if !o.Network.IsZero() {
		return nil, true
	}
	return s.Network(o.Switch)
}

func (h *Handler) domainOf(n *addnhosts.Network) string {
	if n.Domain != "" {
		return n.Domain
	}
	return h.Domain
}

// Answers reports whether the handler would answer or deny a lower-case FQDN. The punt server calls it for
// queries that it drops under load.
func (h *Handler) Answers(o *origin.Origin, qname string) bool {
	if plugin.Zones(h.Zones).Matches(qname) == "" || qname == "." {
		return false
	}
	n, read := h.network(o)
	if n == nil {
		return !read
	}
	_, found := n.Lookup(qname, h.Domain)
	return found || !h.Fall.Through(qname)
}

// OVNOwned reports false: the files have no rows of OVN.
func (*Handler) OVNOwned(*origin.Origin, string) bool { return false }

// Ready reports on all handlers: plugin ready asks only one handler of each plugin name.
func (h *Handler) Ready() bool { return len(h.NotReady()) == 0 }

// NotReady implements ready.Explainer.
func (*Handler) NotReady() (reasons []string) {
	all := addnhosts.All()
	if len(all) == 0 {
		return []string{"the plugins are being started"}
	}
	for _, s := range all {
		if s.Snapshot() == nil {
			reasons = append(reasons, fmt.Sprintf("%s is being read", s.Dir()))
		}
		problems := s.Problems()
		reasons = append(reasons, problems[:min(maxReasons, len(problems))]...)
		if more := len(problems) - maxReasons; more > 0 {
			reasons = append(reasons, fmt.Sprintf("%s: %d further files or folders can't be read", s.Dir(), more))
		}
	}
	return reasons
}

// maxReasons is for each folder.
const maxReasons = 3

// Metadata implements metadata.Provider. The label neutronhosts/answer is "port", "zone", or empty.
func (*Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	return self.Metadata(ctx)
}
