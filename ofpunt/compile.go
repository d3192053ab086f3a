// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/label"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// newServer compiles the blocks of one bridge. Its error has all that is wrong with them. Of blocks
// that disagree it names the lines of both.
func newServer(blocks []*block) (*server, error) {
	options, disagreed := config.Agree(directivesOf(blocks))
	s := &server{options: options, blocks: blocks, guests: guests.NewRules(options.Config), durations: map[string]prometheus.Observer{}}
	options.AddRequests(&s.labelRequests)
	if err := s.compile(blocks); err != nil {
		return nil, errors.Join(disagreed, err)
	}
	all := []error{disagreed, checkZones(blocks)}
	for _, b := range blocks {
		all = append(all, s.add(b))
	}
	all = append(all, s.checkDatabases(blocks))
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	s.punts = punt.NewServer(s.puntConfig())
	return s, nil
}

// checkDatabases sets which databases the bridge has, and returns all that is wrong with them, but an
// ovnhosts that is missing once, whatever would need it.
func (s *server) checkDatabases(blocks []*block) error {
	named, disagreed := s.agreedDatabase(blocks)
	s.hasOVNHosts = named != nil
	lacking := s.checkDatabase(blocks[0], named)
	all := []error{disagreed, lacking}
	if s.hasOVNHosts || lacking == nil {
		all = append(all, s.checkAddresses(blocks, named))
	}
	if !s.hasOVNHosts && lacking == nil {
		all = append(all, checkLabelsWithoutDatabase(blocks))
		for _, b := range blocks {
			all = append(all, b.directive.CheckWithoutOVN())
		}
	}
	return errors.Join(all...)
}

// directivesOf returns the directives of blocks.
func directivesOf(blocks []*block) []*config.Directive {
	all := make([]*config.Directive, len(blocks))
	for i, b := range blocks {
		all[i] = b.directive
	}
	return all
}

// compile makes the chains of the blocks.
func (s *server) compile(blocks []*block) error {
	var configs []*dnsserver.Config
	for _, b := range blocks {
		configs = append(configs, b.configs...)
	}
	s.configs = configs
	if s.options.Hijack() {
		configs = addResumeUnanswered(configs)
	}
	wrapPlugins(configs)
	var err error
	if s.dns, err = dnsserver.NewServer(name+"://"+s.options.Name, configs); err != nil {
		return fmt.Errorf("%s - ofpunt %s: %w", blocks[0], s.options.Name, err)
	}
	for _, c := range configs {
		addViews(c)
		s.durations[c.ViewName] = metric.AnswerDuration.WithLabelValues(s.dns.Addr, c.ViewName)
		if h, ok := c.Handler(name).(*Handler); ok {
			// With what a block sends on, its answers have RA.
			h.taken.Recursive = recurses(c, s.options.Hijack())
			if h.block != nil {
				h.taken.Watched = h.block.watched(c.Zone)
			}
			for _, a := range s.options.Resolvers {
				h.resolvers = append(h.resolvers, a.Addr())
			}
			h.transfers = !s.options.Hijack() && c.Handler("transfer") != nil
			s.recursive = s.recursive || h.taken.Recursive
			s.transfers = s.transfers || h.transfers
		}
	}
	for _, b := range blocks {
		explainViews(b)
	}
	return nil
}

// add collects what the plugins of a block mean for the whole server.
func (s *server) add(b *block) error {
	for _, w := range b.directive.Warnings() {
		log.Warning(w)
	}
	label.AddRequests(&s.labelRequests, b.reads.Labels, b.reads.ComparedNames)
	c := b.config()
	if len(c.ListenHosts) == 0 && c.Handler("loop") != nil {
		return fmt.Errorf("%s - ofpunt %s: loop is in this block, which has no socket for its probe; expected a block without loop, or with bind", b, s.options.Name)
	}
	s.resumes = s.resumes || s.options.Hijack() || c.Handler("passthrough") != nil
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

// config is the compiled config of the block; its zones share their handlers.
func (b *block) config() *dnsserver.Config { return b.configs[0] }

// agreedDatabase sets which databases have the names and guests of the bridge. It returns the
// first ovnhosts of the blocks, nil if none has it, also beside the errors of those that read others.
func (s *server) agreedDatabase(blocks []*block) (named nameSource, err error) {
	var all []error
	for _, b := range blocks {
		n, ok := b.config().Handler("ovnhosts").(nameSource)
		if !ok {
			continue
		}
		if named == nil {
			named, s.database = n, n.Database()
			continue
		}
		if in := s.database.Differences(n.Database()); len(in) > 0 {
			all = append(all, fmt.Errorf("%s - ofpunt %s: ovnhosts differs from the one at %s in what it reads (%s), expected the same on one bridge", n.At(), s.options.Name, named.At(), strings.Join(in, ", ")))
		}
	}
	return named, errors.Join(all...)
}

// checkDatabase returns an error if the databases don't tell the guests that the placement
// needs. named is the ovnhosts that has set them.
func (s *server) checkDatabase(first *block, named nameSource) error {
	switch {
	case s.options.Placement != placement.OVN && s.database.WarmStart.Folder != "":
		return fmt.Errorf("%s - ofpunt %s: ovnhosts has snapshot, and with placement %s nothing in the switch shows that a saved port is still the same; expected placement ovn, or no snapshot", named.At(), s.options.Name, s.options.Placement)
	case s.options.Placement != placement.OVN:
	case named == nil:
		return fmt.Errorf("%s - ofpunt %s: no block of this bridge has ovnhosts, which tells the guests of placement %s; expected it in at least one", first, s.options.Name, s.options.Placement)
	case len(s.database.Southbound) == 0:
		return fmt.Errorf("%s - ofpunt %s: ovnhosts reads no Southbound database, which placement %s needs; expected southbound beside northbound", named.At(), s.options.Name, s.options.Placement)
	}
	return nil
}

// checkAddresses returns an error if the databases don't tell the resolver addresses that
// guests have of their own. named is the ovnhosts that has set them, nil for none.
func (s *server) checkAddresses(blocks []*block, named nameSource) error {
	i := slices.IndexFunc(blocks, func(b *block) bool { return b.directive.Bridge.PerGuest() })
	switch {
	case i < 0 || !s.options.PerGuest():
	case named == nil:
		return blocks[i].directive.Errorf("address", "no block of this bridge has ovnhosts, whose databases tell the addresses of dhcp and gateway; expected it in at least one")
	case s.options.DHCP && len(s.database.Northbound) == 0:
		return blocks[i].directive.Errorf("address", "ovnhosts at %s reads no Northbound database, which has the DHCP options for dhcp; expected northbound there", named.At())
	}
	return nil
}

// puntConfig is for the punt server of s.
func (s *server) puntConfig() punt.Config {
	o := &s.options
	return punt.Config{
		Chains: s.dns, Context: &serverContext{context.Background(), s},
		Guests: s.guests, Snapshot: s.snapshot, Answers: s.answers, OVNOwned: s.ovnOwned, Find: s.find,
		Concurrent: o.Concurrent, ConcurrentGuest: o.ConcurrentGuest, DropOverload: o.Overload == config.OverloadDrop,
		Recursive: s.recursive, Transfers: s.transfers,
		FromMemory:  !slices.ContainsFunc(s.configs, func(c *dnsserver.Config) bool { return !answersFromMemory(c) }),
		ReadTimeout: s.dns.ReadTimeout, IdleTimeout: s.dns.IdleTimeout, MaxTCPQueries: s.dns.MaxTCPQueries,
	}
}
