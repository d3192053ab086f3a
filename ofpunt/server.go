// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/pkg/transport"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// drainTimeout bounds the wait for queries in the chains of a server that goes.
// It is a little more than answerDeadline, when each of them has its answer.
const drainTimeout = answerDeadline + 500*time.Millisecond

// server is the punt server of one bridge: all the server blocks that name it.
type server struct {
	options  Options
	dns      *dnsserver.Server
	database ovn.Config
	// pause is set when a punt can be resumed: what nobody answers goes on to
	// its own destination.
	pause bool

	// named is set when a block has ovnhosts. Then source is there from open on.
	named     bool
	source    *ovn.Source
	admission *admission
	// fromMemory is set if no chain waits over a name of the databases, and
	// doubted is until when experience speaks against that, in Unix nanoseconds.
	fromMemory bool
	doubted    atomic.Int64
	// panicked is set once a panic has been logged.
	panicked atomic.Bool
	// durations has the histogram of each view, so that no query looks it up by
	// its labels.
	durations map[string]prometheus.Observer
}

// nameSource is how the punt server finds the database that knows its guests: the
// ovnhosts handler of a block implements it.
type nameSource interface{ Database() ovn.Config }

// newServer compiles the blocks of one bridge. Blocks that disagree are errors
// that name the lines of both.
func newServer(blocks []*block) (*server, error) {
	first := blocks[0]
	s := &server{options: first.options}
	bridge := first.options.Bridge

	// The block that gives properties speaks for those that give none.
	said := first
	for _, b := range blocks[1:] {
		switch {
		case !b.explicit:
		case !said.explicit:
			said = b
			s.options = b.options
		case !reflect.DeepEqual(said.options, b.options):
			return nil, fmt.Errorf("%s - ofpunt %s: other properties than at %s (%s), expected the same or none",
				b, bridge, said, strings.Join(differences(said, b), ", "))
		}
	}

	var configs []*dnsserver.Config
	for _, b := range blocks {
		configs = append(configs, b.configs...)
	}
	if s.options.hijack() {
		configs = goOnward(configs)
	}
	var err error
	if s.dns, err = dnsserver.NewServer(name+"://"+bridge, configs); err != nil {
		return nil, fmt.Errorf("%s - ofpunt %s: %w", first, bridge, err)
	}
	s.durations = map[string]prometheus.Observer{}
	for _, c := range configs {
		addViews(c)
		s.durations[c.ViewName] = answerDuration.WithLabelValues(s.dns.Addr, c.ViewName)
	}
	if err := checkZones(blocks); err != nil {
		return nil, err
	}

	var known *block
	for _, b := range blocks {
		b.unusedKeys()
		// The zones of one block share its handlers.
		c := b.configs[0]
		if c.Handler("view") != nil && c.Handler("metadata") == nil {
			log.Warningf("%s - ofpunt %s: view is in this block without metadata, and so can't tell who asks", b, bridge)
		}
		if len(c.ListenHosts) == 0 && c.Handler("loop") != nil {
			return nil, fmt.Errorf("%s - ofpunt %s: loop is in this block, which has no socket for its probe; expected a block without loop, or with bind", b, bridge)
		}
		if c.Handler("passthrough") != nil {
			s.pause = true
		}
		n, ok := c.Handler("ovnhosts").(nameSource)
		switch {
		case !ok:
		case known == nil:
			known, s.database = b, n.Database()
		case !reflect.DeepEqual(s.database, n.Database()):
			return nil, fmt.Errorf("%s - ofpunt %s: ovnhosts reads other databases than at %s, expected the same on one bridge", b, bridge, known)
		}
	}
	s.named = known != nil
	switch {
	case s.options.Placement != placement.OVN:
	case known != nil && len(s.database.Southbound) == 0:
		return nil, fmt.Errorf("%s - ofpunt %s: ovnhosts reads no Southbound database, which placement %s needs; expected southbound beside northbound", known, bridge, s.options.Placement)
	case known == nil:
		return nil, fmt.Errorf("%s - ofpunt %s: no block of this bridge has ovnhosts, which tells the guests of placement %s; expected it in at least one", first, bridge, s.options.Placement)
	}
	s.pause = s.pause || s.options.hijack()
	s.fromMemory = !slices.ContainsFunc(blocks, func(b *block) bool {
		return slices.ContainsFunc(b.configs, func(c *dnsserver.Config) bool { return !answersFromMemory(c) })
	})
	s.admission = newAdmission(s.options.Concurrent)
	return s, nil
}

// differences are the properties that two blocks do not give in the same words.
func differences(a, b *block) []string {
	return slices.DeleteFunc(propertyNames(), func(name string) bool { return slices.Equal(a.words[name], b.words[name]) })
}

// unusedKeys warns of what the keys of a block say of a socket that it has not.
func (b *block) unusedKeys() {
	for _, c := range b.configs {
		if len(c.ListenHosts) == 0 && (c.Port != dnsserver.Port || c.Transport != transport.DNS) {
			log.Warningf("%s - ofpunt %s: without bind the block has no socket, so transport and port of %s://%s:%s mean nothing; address says which port guests ask",
				b, b.options.Bridge, c.Transport, c.Zone, c.Port)
		}
	}
}

// addViews does for a config without a socket what CoreDNS does for one with:
// it makes the view plugins of the block filter its queries.
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

// checkZones refuses two blocks that would take the same queries: CoreDNS does
// so only for those that have a socket.
func checkZones(blocks []*block) error {
	taken := map[string]*block{}
	for _, b := range blocks {
		for _, c := range b.configs {
			if len(c.FilterFuncs) > 0 {
				continue
			}
			if other, ok := taken[c.Zone]; ok {
				return fmt.Errorf("%s - ofpunt %s: zone %q is served without a view at %s already, expected another zone or a view", b, b.options.Bridge, c.Zone, other)
			}
			taken[c.Zone] = b
		}
	}
	return nil
}

// duration is the histogram of a view's answers.
func (s *server) duration(view string) prometheus.Observer {
	if o, ok := s.durations[view]; ok {
		return o
	}
	return answerDuration.WithLabelValues(s.dns.Addr, view)
}

// synced reports whether every database of the server is.
func (s *server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// settled reports whether every guest of the databases is known.
func (s *server) settled() bool { return s.source == nil || s.source.Snapshot().Settled }

func (s *server) open() error {
	if !s.named {
		return nil
	}
	source, err := ovn.Acquire(s.database)
	if err != nil {
		return fmt.Errorf("ofpunt %s: %w", s.options.Bridge, err)
	}
	s.source = source
	return nil
}

// close lets go of what open took. A query that outlived the drain still reads
// the last snapshot.
func (s *server) close() {
	if s.source != nil {
		s.source.ForgetPorts(s)
		s.source.Release()
	}
}

// drain waits until no query is in the chains, or ctx ends.
func (s *server) drain(ctx context.Context) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.admission.count.Load() > 0 {
		select {
		case <-ctx.Done():
			log.Warningf("Bridge %s: %d queries were still in their chain after %s", s.options.Bridge, s.admission.count.Load(), drainTimeout)
			return
		case <-t.C:
		}
	}
}
