// SPDX-License-Identifier: Apache-2.0

// Package ovnhosts is a CoreDNS plugin that answers from the OVN databases, each
// asker within his own network.
package ovnhosts

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/fall"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

const name = "ovnhosts"

var log = clog.NewWithPlugin(name)

// Handler answers with the names of the asker's network.
type Handler struct {
	Next  plugin.Handler
	Zones []string
	Fall  fall.F

	// domain completes the hostnames of ports whose domain OVN does not say;
	// fully qualified and in lower case, or empty.
	domain string
	ttl    uint32
	// defaultSwitch is the scope of a query that no punt brought; empty for none.
	defaultSwitch string
	// routers widens the scope to the networks that routers join to the asker's.
	routers bool

	config ovn.Config
	// lines has the line in the Corefile of each property that is given.
	lines  map[string]int
	source *ovn.Source
	// forget takes back what was asked of source.
	forget []func()
}

// Name implements plugin.Handler.
func (*Handler) Name() string { return name }

// Database says what the handler reads: the punt server takes its guests from
// the same databases.
func (h *Handler) Database() ovn.Config { return h.config }

// Covers tells whether all names of a zone are in the handler's zones.
func (h *Handler) Covers(zone string) bool { return plugin.Zones(h.Zones).Matches(zone) != "" }

// ServeDNS implements plugin.Handler.
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	qname := state.Name()
	zone := plugin.Zones(h.Zones).Matches(qname)
	// Nobody here has the root; to deny it would deny all below (RFC 8020).
	if zone == "" || qname == "." {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	snapshot := h.source.Snapshot()
	scope, domain := h.scope(ctx, snapshot)
	if _, punted := origin.FromContext(ctx); scope.Own == nil && !punted && h.defaultSwitch != "" {
		// To pass the name on would tell others of it, and cache their answer.
		return dns.RcodeServerFailure, plugin.Error(name, fmt.Errorf("the default switch %q is not known", h.defaultSwitch))
	}
	if scope.Own == nil {
		// Who has no network has no names here, and nothing is known against them.
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}

	known, found := scope.Lookup(qname, h.domain)
	if !found && h.Fall.Through(qname) {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	if c := state.QClass(); c != dns.ClassINET && c != dns.ClassANY {
		return dns.RcodeRefused, nil // even the SOA of a denial would be of another class
	}

	m := new(dns.Msg)
	m.SetReply(r)
	m.Authoritative = true
	switch {
	case found:
		m.Answer = h.records(state, known)
		tell(ctx, known.Source)
	case qname != domain && qname != zone && !scope.Empty(qname, h.domain):
		// There are names below the others, or may be. To deny one would deny
		// those too (RFC 8020).
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(negativeOwner(qname, domain, zone), snapshot.Time)}
	}
	answers.WithLabelValues(metrics.WithServer(ctx), metrics.WithView(ctx), outcome(known, m)).Inc()
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(name, err)
	}
	return dns.RcodeSuccess, nil
}

// scope is the networks whose names the asker sees, and the domain he is in. It
// has none for an asker that nobody knows.
func (h *Handler) scope(ctx context.Context, s *ovn.Snapshot) (scope ovn.Scope, domain string) {
	o, punted := origin.FromContext(ctx)
	var id origin.Network
	if punted {
		id = o.Network
	} else if h.defaultSwitch != "" {
		if n := s.NetworkByName(h.defaultSwitch); n != nil {
			id = n.ID
		}
	}
	if h.routers {
		scope = s.RouterScope(id)
	} else {
		scope = s.SwitchScope(id)
	}
	if scope.Own == nil {
		return scope, ""
	}
	domain = scope.Own.Domain
	if punted {
		if p := s.PortByName(o.Port); p != nil && p.Network == id && p.Domain != "" {
			domain = p.Domain
		}
	}
	if domain == "" {
		domain = h.domain
	}
	return scope, domain
}

// records are the answer of known to the question, in the question's case.
func (h *Handler) records(state request.Request, known ovn.Answer) []dns.RR {
	owner, qtype := state.QName(), state.QType()
	if state.QClass() != dns.ClassINET {
		return nil
	}
	header := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: owner, Rrtype: t, Class: dns.ClassINET, Ttl: h.ttl}
	}
	var rrs []dns.RR
	if qtype == dns.TypeA || qtype == dns.TypeANY {
		for _, a := range known.V4 {
			rrs = append(rrs, &dns.A{Hdr: header(dns.TypeA), A: addr(a)})
		}
	}
	if qtype == dns.TypeAAAA || qtype == dns.TypeANY {
		for _, a := range known.V6 {
			rrs = append(rrs, &dns.AAAA{Hdr: header(dns.TypeAAAA), AAAA: addr(a)})
		}
	}
	if qtype == dns.TypePTR || qtype == dns.TypeANY {
		for _, target := range known.PTR {
			rrs = append(rrs, &dns.PTR{Hdr: header(dns.TypePTR), Ptr: target})
		}
	}
	return rrs
}

// addr has its bytes to itself: plugins above may change a record.
func addr(a netip.Addr) []byte { return a.AsSlice() }

// Ready implements ready.Readiness, for all handlers of the process: the ready
// plugin keeps one answer by plugin name.
func (*Handler) Ready() bool { return sources.ready() }

type tableKey struct{}

// Metadata implements metadata.Provider. The label ovnhosts/answer names the
// table that gave the answer: "dns", "port", or nothing.
func (h *Handler) Metadata(ctx context.Context, _ request.Request) context.Context {
	table := new(string)
	metadata.SetValueFunc(ctx, name+"/answer", func() string { return *table })
	return context.WithValue(ctx, tableKey{}, table)
}

func tell(ctx context.Context, table string) {
	if t, ok := ctx.Value(tableKey{}).(*string); ok {
		*t = table
	}
}

// under reports whether the name is the domain or lies below it; both are fully
// qualified and in lower case.
func under(name, domain string) bool {
	return domain != "" && dns.IsSubDomain(domain, name)
}
