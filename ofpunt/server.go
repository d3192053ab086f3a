// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/pkg/transport"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// server is the punt server of one bridge: all the server blocks that name it.
type server struct {
	options  Options
	dns      *dnsserver.Server
	configs  []*dnsserver.Config // of the blocks
	database ovn.Config
	// pause is set when a punt can be resumed: what nobody answers goes on to
	// its own destination.
	pause bool

	// recursive is set if a block offers recursion; transfers if one has the plugin for
	// zone transfers.
	recursive, transfers bool

	// named is set when a block has ovnhosts. Then source is there from open on.
	named  bool
	source *ovn.Source
	// wants are what the ovnhosts of the blocks ask of it, and forget takes that back: for
	// a trial, before the plugins do so themselves.
	wants  []ovn.Wants
	forget []func()
	// punts takes the queries to the chains.
	punts *punt.Server
	// answerers are the ovnhosts of the blocks.
	answerers []answerer
	// rival is why the source is not for the chassis of this server, nil if it is.
	rival atomic.Pointer[error]
	// forwards has the blocks that forward, loopsTold what tellLoops has told.
	forwards  []forwards
	loopsTold map[string]bool
	// durations has the histogram of each view, so that no query looks it up by
	// its labels.
	durations map[string]prometheus.Observer
}

// nameSource is how the punt server finds the database that knows its guests: the
// ovnhosts handler of a block implements it.
type nameSource interface{ Database() ovn.Config }

// answerer tells which names the blocks answer for, by themselves: the ovnhosts handler
// of a block implements it.
type answerer interface {
	Answers(o *origin.Origin, qname string) bool
}

// serverContext is the context of the queries of a punt server: it carries what CoreDNS
// puts into that of a query from a socket.
type serverContext struct {
	context.Context
	server *server
}

type serverKey struct{}

// Value implements context.Context.
func (c *serverContext) Value(key any) any {
	switch key.(type) {
	case serverKey:
		return c.server
	case dnsserver.Key:
		return c.server.dns
	case dnsserver.LoopKey:
		return 0
	}
	return nil
}

// serverOf is the punt server of a query that a punt brought.
func serverOf(ctx context.Context) *server {
	s, _ := ctx.Value(serverKey{}).(*server)
	return s
}

// answers reports whether a block answers o for a name by itself.
func (s *server) answers(o *origin.Origin, qname string) bool {
	return slices.ContainsFunc(s.answerers, func(a answerer) bool { return a.Answers(o, qname) })
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
	return metric.AnswerDuration.WithLabelValues(s.dns.Addr, view)
}

// synced reports whether every database of the server is.
func (s *server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// unbound is what is wrong with the bindings of this chassis, empty if they are there.
func (s *server) unbound() string {
	if s.source == nil {
		return ""
	}
	switch snapshot := s.source.Snapshot(); {
	case snapshot.HasKept():
		return "the bindings of this chassis are gone, its guests are served for the grace"
	case s.options.Placement == placement.OVN && !snapshot.HasChassis():
		return "the Southbound database does not know this chassis"
	}
	return ""
}

// unsettled is why the guests of a chassis are not known, empty if the databases are still
// being read.
func (s *server) unsettled() string {
	if !s.synced() {
		return ""
	}
	return s.unbound()
}

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
	for _, forget := range s.forget {
		forget()
	}
	if s.source != nil {
		claims.release(s)
		s.source.ForgetPorts(s)
		s.source.Release()
	}
}

// drain waits until no query is in the chains, or ctx ends.
func (s *server) drain(ctx context.Context) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.punts.InFlight() > 0 {
		select {
		case <-ctx.Done():
			log.Warningf("Bridge %s: %d queries were still in their chain after %s", s.options.Bridge, s.punts.InFlight(), punt.DrainTimeout)
			return
		case <-t.C:
		}
	}
}
