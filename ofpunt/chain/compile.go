// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// Server has the compiled chains of all server blocks of one bridge. It does not change. The zero value has no block.
type Server struct {
	Options config.Bridge
	// Database is what the ovnhosts of the blocks read, valid if HasDatabase is set.
	Database    ovndb.Config
	HasDatabase bool
	// Requests is the data that labels and limits need from the databases.
	Requests ovndb.Requests
	// Egress are the egress policies that the switch enforces, nil without any.
	Egress   *EgressPolicies
	Openings opening.Settings
	// ACLBit is the bit of pkt_mark in ACLs for egress, 0 without *egress*. It is also known if the switch enforces no policy.
	ACLBit uint8

	blocks  []*Block
	configs []*dnsserver.Config
	dns     *dnsserver.Server
	// resumes: queries without an answer go on to their destination.
	resumes bool
	// recursive is set if a block offers recursion, transfers if a block has *transfer*.
	recursive, transfers bool
	answerers            []answerer
	upstreams            []blockUpstreams
}

type answerer interface {
	Answers(o *origin.Origin, qname string) bool
	OVNOwned(o *origin.Origin, qname string) bool
}

// Compile makes the chains of the blocks of one bridge. The error joins all mistakes; blocks that disagree are both
// named.
func Compile(blocks []*Block) (*Server, error) {
	options, disagreed := config.Agree(directivesOf(blocks))
	s := &Server{Options: options, blocks: blocks}
	options.AddRequests(&s.Requests)
	if err := s.compile(); err != nil {
		return nil, errors.Join(disagreed, err)
	}
	all := []error{disagreed, s.checkZones()}
	for _, b := range blocks {
		all = append(all, s.add(b))
	}
	all = append(all, s.checkDatabases(), s.readEgress())
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) compile() error {
	for _, b := range s.blocks {
		s.configs = append(s.configs, b.Configs...)
	}
	configs, hijack := s.configs, s.Options.Hijack()
	if hijack {
		configs = addResumeUnanswered(configs)
	}
	wrapPlugins(configs, hijack, s.Options.Hedge)
	var err error
	if s.dns, err = dnsserver.NewServer(s.address(), configs); err != nil {
		return fmt.Errorf("%s - ofpunt %s: %w", s.blocks[0], s.Options.Name, err)
	}
	for _, c := range configs {
		addViews(c)
		h, ok := c.Handler(name).(*Handler)
		if !ok {
			continue
		}
		h.duration = metric.AnswerDuration.WithLabelValues(s.address(), c.ViewName)
		h.taken.Recursive = recurses(c, hijack)
		if h.block != nil {
			h.taken.Watched = h.block.watched(c.Zone)
		}
		for _, a := range s.Options.Resolvers {
			h.resolvers = append(h.resolvers, a.Addr())
		}
		h.transfers = !hijack && c.Handler("transfer") != nil
		s.recursive = s.recursive || h.taken.Recursive
		s.transfers = s.transfers || h.transfers
	}
	for _, b := range s.blocks {
		explainViews(b)
	}
	return nil
}

// address is the label "server" of CoreDNS' metrics.
func (s *Server) address() string { return name + "://" + s.Options.Name }

// addViews adds view filters: CoreDNS adds them only with a socket.
func addViews(c *dnsserver.Config) {
	if c.ViewName != "" {
		return // the block has a socket too
	}
	for _, h := range c.Handlers() {
		if v, ok := h.(dnsserver.Viewer); ok {
			c.ViewName = v.ViewName()
			c.FilterFuncs = append(c.FilterFuncs, v.Filter)
		}
	}
}

// checkZones refuses two blocks for the same queries: CoreDNS checks only blocks with a socket.
func (s *Server) checkZones() error {
	var all []error
	taken := map[string]*Block{}
	for _, b := range s.blocks {
		for _, c := range b.Configs {
			if len(c.FilterFuncs) > 0 {
				continue
			}
			if other, ok := taken[c.Zone]; ok {
				all = append(all, fmt.Errorf("%s - ofpunt %s: zone %q is served without a view at %s already, expected another zone or a view", b, s.Options.Name, c.Zone, other))
				continue
			}
			taken[c.Zone] = b
		}
	}
	return errors.Join(all...)
}

// add collects what the plugins of a block mean for the server.
func (s *Server) add(b *Block) error {
	for _, w := range b.Directive.Warnings() {
		log.Warning(w)
	}
	label.AddRequests(&s.Requests, b.reads.Labels, b.reads.ComparedNames)
	c := b.config()
	if len(c.ListenHosts) == 0 && c.Handler("loop") != nil {
		return fmt.Errorf("%s - ofpunt %s: loop is in this block, which has no socket for its probe; expected a block without loop, or with bind", b, s.Options.Name)
	}
	s.resumes = s.resumes || s.Options.Hijack() || c.Handler("passthrough") != nil
	if f := upstreamsOfBlock(b, c); len(f.forwards) > 0 {
		s.upstreams = append(s.upstreams, f)
	}
	for _, names := range []string{"ovnhosts", "neutronhosts"} {
		if a, ok := c.Handler(names).(answerer); ok {
			s.answerers = append(s.answerers, a)
		}
	}
	return nil
}

// Config returns the config of the punt server. snapshot returns nil without databases.
func (s *Server) Config(rules *guests.Rules, snapshot func() *ovn.Snapshot) punt.Config {
	o := &s.Options
	return punt.Config{
		Chains: s.dns, Context: s.Context(),
		Guests: rules, Snapshot: snapshot, Answers: s.answers, OVNOwned: s.ovnOwned,
		// For a name that Find finds, ovnhosts has the same answer. By scope and domain it may find more names.
		Find: func(o *origin.Origin, qname string, found *ovn.LookupCache) bool {
			return found.Prefetch(snapshot(), o.Network, qname)
		},
		Concurrent: o.Concurrent, ConcurrentGuest: o.ConcurrentGuest, DropOverload: o.Overload == config.OverloadDrop,
		Recursive: s.recursive, Transfers: s.transfers,
		FromMemory:  !slices.ContainsFunc(s.configs, func(c *dnsserver.Config) bool { return !answersFromMemory(c) }),
		FromCache:   !slices.ContainsFunc(s.configs, func(c *dnsserver.Config) bool { return !answersFromCache(c) }),
		Why:         o.Why,
		ReadTimeout: s.dns.ReadTimeout, IdleTimeout: s.dns.IdleTimeout, MaxTCPQueries: s.dns.MaxTCPQueries,
	}
}

// Context returns the context of a punted query, with CoreDNS' keys for a query from a socket.
func (s *Server) Context() context.Context {
	return context.WithValue(context.WithValue(context.Background(), dnsserver.LoopKey{}, 0), dnsserver.Key{}, s.dns)
}

func (s *Server) answers(o *origin.Origin, qname string) bool {
	return slices.ContainsFunc(s.answerers, func(a answerer) bool { return a.Answers(o, qname) })
}

// ovnOwned reports whether a block has the name from a row that OVN owns.
func (s *Server) ovnOwned(o *origin.Origin, qname string) bool {
	return slices.ContainsFunc(s.answerers, func(a answerer) bool { return a.OVNOwned(o, qname) })
}

// Resumes reports whether queries without an answer go on to their destination.
func (s *Server) Resumes() bool { return s.resumes }

// Labels returns the labels of o, with external_ids that the blocks read.
func (s *Server) Labels(o *origin.Origin) (all []api.Label) {
	seen := map[string]bool{}
	add := func(labels []label.Label) {
		for i := range labels {
			if l := &labels[i]; !seen[l.Name] {
				seen[l.Name] = true
				all = append(all, api.Label{Name: l.Name, Value: l.Value(o)})
			}
		}
	}
	add(label.All())
	for _, b := range s.blocks {
		add(b.reads.Labels)
	}
	return all
}
