// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// server answers for one bridge: all server blocks of a Corefile that name it.
type server struct {
	options  config.Bridge
	dns      *dnsserver.Server
	configs  []*dnsserver.Config // of the blocks
	blocks   []*block
	database ovndb.Config
	// resumes is set if queries that nobody answers go on to their destination.
	resumes bool

	// recursive is set if a block offers recursion; transfers if one has the plugin for
	// zone transfers.
	recursive, transfers bool

	// hasOVNHosts is set if a block has ovnhosts. Then source is valid from open to close,
	// else it is nil.
	hasOVNHosts bool
	source      *ovndb.Reader
	// requests are what the ovnhosts of all blocks will ask of source. A trial
	// makes them before the plugins do.
	requests []ovndb.Requests
	// labelRequests is what the labels that the blocks and the limits name need of source.
	labelRequests ovndb.Requests
	// guests says who is served.
	guests *guests.Rules
	// settledBefore is set in a trial if the server before had its databases settled.
	settledBefore bool
	// punts takes the queries to the chains.
	punts *punt.Server
	// answerers are the ovnhosts and neutronhosts of the blocks.
	answerers []answerer
	// noneBound is why placement neutron serves nobody, nil if it serves somebody.
	// unboundSeen is set if the last look found nobody; only the goroutine of the session
	// uses it.
	noneBound   atomic.Pointer[string]
	unboundSeen bool
	// upstreams are those of the blocks that have forward. loggedLoops is what logLoops has
	// logged; it alone uses that.
	upstreams   []blockUpstreams
	loggedLoops map[string]bool
	// durations has the histogram of each view, so that no query looks it up by
	// its labels.
	durations map[string]prometheus.Observer
}

// nameSource tells which databases know the guests, and the line of the Corefile that names
// them. The ovnhosts handler of a block implements it.
type nameSource interface {
	Database() ovndb.Config
	At() corefile.Position
}

// answerer reports which names a block answers for by itself. The handlers of a block for
// ovnhosts and neutronhosts implement it.
type answerer interface {
	Answers(o *origin.Origin, qname string) bool
	OVNOwned(o *origin.Origin, qname string) bool
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

// ovnOwned reports whether a block knows a name, as o sees it, from a row that OVN owns.
func (s *server) ovnOwned(o *origin.Origin, qname string) bool {
	return slices.ContainsFunc(s.answerers, func(a answerer) bool { return a.OVNOwned(o, qname) })
}

// addViews has the view plugins of a config without a socket filter its queries, as CoreDNS
// does for one with a socket.
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
	var all []error
	taken := map[string]*block{}
	for _, b := range blocks {
		for _, c := range b.configs {
			if len(c.FilterFuncs) > 0 {
				continue
			}
			if other, ok := taken[c.Zone]; ok {
				all = append(all, fmt.Errorf("%s - ofpunt %s: zone %q is served without a view at %s already, expected another zone or a view", b, b.directive.Bridge.Name, c.Zone, other))
				continue
			}
			taken[c.Zone] = b
		}
	}
	return errors.Join(all...)
}

// duration returns the histogram of the answers of a view.
func (s *server) duration(view string) prometheus.Observer {
	if o, ok := s.durations[view]; ok {
		return o
	}
	return metric.AnswerDuration.WithLabelValues(s.dns.Addr, view)
}

// synced reports whether every database of the server is in sync.
func (s *server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// bindingProblem says what is wrong with the bindings of this chassis, empty if nothing is.
func (s *server) bindingProblem() string {
	if reason := s.noneBound.Load(); reason != nil {
		return *reason
	}
	if s.source == nil {
		return ""
	}
	switch snapshot := s.source.Snapshot(); {
	case snapshot.HasRetained():
		return "the bindings of this chassis are gone, or have a former name of it; its guests are served for the grace"
	case s.options.Placement == placement.OVN && !snapshot.HasChassis() && s.synced():
		return "the Southbound database does not know this chassis"
	}
	return ""
}

// whyUnsettled says why the guests of a chassis are not known, empty if the databases are still
// being read.
func (s *server) whyUnsettled() string {
	if !s.synced() {
		return ""
	}
	return s.bindingProblem()
}

// snapshot returns what the databases say, nil without databases.
func (s *server) snapshot() *ovn.Snapshot {
	if s.source == nil {
		return nil
	}
	return s.source.Snapshot()
}

// book returns the guests now.
func (s *server) book(view *ports.View) guests.Book { return guests.At(s.guests, s.snapshot(), view) }

// settled reports whether every guest of the databases is known.
func (s *server) settled() bool { return s.source == nil || s.source.Snapshot().Settled }

// open acquires the databases of s, which others may share.
func (s *server) open() error {
	if !s.hasOVNHosts {
		return nil
	}
	source, err := ovndb.Open(s.database, s.options.Name)
	if err != nil {
		return fmt.Errorf("ofpunt %s: %w", s.options.Name, err)
	}
	s.source = source
	source.Request(s.ownRequests())
	return nil
}

// ownRequests is what the bridge needs of its databases: for the addresses of its guests and the
// labels of its blocks.
func (s *server) ownRequests() ovndb.Requests {
	r := s.labelRequests
	r.DNSServers, r.Gateways = s.options.DHCP, s.options.Gateways
	return r
}

// close releases what open has acquired. A query that has outlived the drain still reads the
// last snapshot.
func (s *server) close() {
	if s.source != nil {
		s.source.Close()
	}
}

// conflict returns why the databases can't be read for the chassis of s, nil if they can.
func (s *server) conflict() error {
	if s.source == nil {
		return nil
	}
	return s.source.Conflict()
}

// drain waits until no query is in the chains, or ctx ends.
func (s *server) drain(ctx context.Context) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.punts.InFlight() > 0 {
		select {
		case <-ctx.Done():
			log.Warningf("Bridge %s: %d queries were still in their chain after %s", s.options.Name, s.punts.InFlight(), punt.DrainTimeout)
			return
		case <-t.C:
		}
	}
}
