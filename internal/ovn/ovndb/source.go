// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/build"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Source reads the databases of one Config and makes Snapshots of them. During an outage
// the last snapshot stays, until the contents of a new connection are
// complete. Its methods may be called from any goroutine.
type Source struct {
	config Config
	cancel context.CancelFunc
	wait   sync.WaitGroup // the goroutines of startGoroutines

	snapshot atomic.Pointer[ovn.Snapshot]
	// changed is closed when the snapshot is replaced, and another takes its place.
	changed atomic.Pointer[chan struct{}]

	// mu guards all below: the rows, which the goroutines of the clients write, and
	// what is derived from them.
	mu    logMutex
	log   *logMutex
	local bool // Monitor is Local: only the networks that are wanted are read

	// databases are sb and nb, those that are configured. topology is the first of them.
	databases []*connection
	topology  topology.View
	// sb and nb are the rows, sbConn and nbConn the connections; nil unless configured.
	sb             *topology.Southbound
	nb             *topology.Northbound
	sbConn, nbConn *connection
	// follows is the generation of Southbound's conditions that the conditions of Northbound are for.
	follows uint64

	// chassis is the name of the local one, "" for none.
	chassis string
	// references are the networks that requests refer to.
	references ovn.References
	// logged is the occurrence of each reference as of the present snapshot.
	logged logged
	// interfaces are the ports that have an interface here, by the owner of
	// Source.SetPorts; plugged are all of them, sorted, and pluggedAt is since when.
	interfaces map[any]binding.LocalPorts
	plugged    []string
	pluggedAt  map[string]time.Time
	warm       warm
	// unservedPorts are the ports that Source.Unserved asks for, by its owner.
	unservedPorts map[any][]string
	grace         grace
	components    build.Components
	// scopeUsers counts the requests for Snapshot.RouterScope.
	scopeUsers int
	labels     labels
	// dnsServerUsers and gatewayUsers count the requests for Port.DNSServers and
	// Network.Gateways.
	dnsServerUsers, gatewayUsers int
	// forwardUsers counts the requests for Network.Forwards.
	forwardUsers int

	// dirty has the networks to be built anew; true: their ports as well.
	dirty map[origin.Network]bool
	// complete has the networks that all databases cover. A network stays complete
	// while it is wanted: a new port does not take it out of the snapshot until
	// Northbound has sent the row of that port.
	complete map[origin.Network]struct{}
	// coverageChanged is set when the databases may have come to cover other networks.
	coverageChanged bool
	// conditionsDirty is set when other rows may be wanted.
	conditionsDirty bool
	// builtFlows is the version of Southbound's flows that the snapshot has.
	builtFlows uint64
	// renamed are the names that other networks may have now than in the last snapshot.
	renamed map[string]struct{}

	bad problem.Registry
	// builtProblems has the problems of the networks that build has made, until noteNetworks.
	builtProblems map[origin.Network]problem.Set

	// rebuildTimer calls update at notBefore; nil if it is not running. No snapshot is
	// made before notBefore.
	rebuildTimer *time.Timer
	notBefore    time.Time
	// dueTimer calls update when the next grace ends, or conditionsDue comes; nil if there
	// is neither.
	dueTimer *time.Timer
	clock    func() time.Time // of the grace and of interfaces: time.Now but in tests
	closed   bool
}

// start returns a Source whose goroutines run. stop ends them.
func start(cfg Config, sb, nb []endpoint.Endpoint, conf *tls.Config) *Source {
	s := newSource(cfg, sb, nb, conf)
	s.startGoroutines()
	return s
}

// newSource returns a Source without goroutines.
func newSource(cfg Config, sb, nb []endpoint.Endpoint, conf *tls.Config) *Source {
	s := &Source{
		config: cfg, clock: time.Now, local: cfg.Monitor == Local,
		references: ovn.NewReferences(), interfaces: make(map[any]binding.LocalPorts), unservedPorts: make(map[any][]string),
		dirty: make(map[origin.Network]bool), complete: make(map[origin.Network]struct{}),
		renamed: make(map[string]struct{}), bad: problem.NewRegistry(),
		coverageChanged: true, conditionsDirty: true,
	}
	s.log = &s.mu
	s.snapshot.Store(&ovn.Snapshot{})
	changed := make(chan struct{})
	s.changed.Store(&changed)
	if s.mu.log = cfg.Log; s.mu.log == nil {
		s.mu.log = silent{}
	}
	s.addDatabases(len(sb) > 0, len(nb) > 0)
	connect := func(c *connection, name string, endpoints []endpoint.Endpoint) {
		c.connect = func(from *ovsdb.Position) *ovsdb.Client {
			return ovsdb.New(ovsdb.Config{
				Database: name, Endpoints: endpoints, TLS: conf, Tables: c.Tables.Requests(), Receiver: &receiver{source: s, db: c},
				Shuffle: spreadOf(endpoints) > 0, ReconnectJitter: spreadOf(endpoints), Resume: from,
			})
		}
		c.client = c.connect(nil)
	}
	if s.sb != nil {
		connect(s.sbConn, topology.SouthboundName, sb)
	}
	if s.nb != nil {
		connect(s.nbConn, topology.NorthboundName, nb)
	}
	if cfg.WarmStart.Folder != "" {
		s.mu.Lock()
		s.prepareWarmStart()
		s.mu.Unlock()
	}
	return s
}

// SourceOf returns a Source without databases, for tests of other packages. Its snapshot stays s. It has no
// goroutines, and must not be released.
func SourceOf(s *ovn.Snapshot) *Source {
	source := newSource(Config{}, nil, nil, nil)
	source.snapshot.Store(s)
	source.closed = true // no update
	return source
}

// firstConditions are those of a table at the start: for all rows, or for none if setConditions
// is to ask for some.
func (s *Source) firstConditions() []ovsdb.Condition {
	if s.local {
		return []ovsdb.Condition{}
	}
	return nil
}

// addDatabases creates the databases that are configured. Each one uses the other, so both
// have to exist before a client delivers rows.
func (s *Source) addDatabases(southbound, northbound bool) {
	if southbound {
		s.sb = topology.NewSouthbound(s.firstConditions(), s.labelKeys)
		s.sbConn = newConnection(topology.SouthboundName, &s.sb.Contents)
		s.sb.IsReadByName = func(port string) bool { return s.sbConn.Latest.Has(topology.TablePort, interest.PortNamed(port)) }
		s.databases, s.topology = append(s.databases, s.sbConn), s.sb
	}
	if northbound {
		s.nb = topology.NewNorthbound(s.firstConditions(), s.labelKeys, s.sb == nil)
		s.nbConn = newConnection(topology.NorthboundName, &s.nb.Contents)
		if s.databases = append(s.databases, s.nbConn); s.topology == nil {
			s.topology = s.nb
		}
	}
}

// startGoroutines starts a goroutine for the client of each database, and one for the file of a warm start.
func (s *Source) startGoroutines() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if s.warm.path != "" {
		s.wait.Go(func() {
			s.load()
			s.keepSaving(ctx)
		})
	}
	for _, d := range s.databases {
		s.wait.Go(func() { s.run(ctx, d) })
	}
}

// spread bounds the delay before the first attempt to connect again. A server that ends leaves as
// many clients as there are nodes.
const spread = 2 * time.Second

// spreadOf returns the spread for endpoints: none where all are on this machine.
func spreadOf(endpoints []endpoint.Endpoint) time.Duration {
	if slices.ContainsFunc(endpoints, func(e endpoint.Endpoint) bool { return e.Network != "unix" }) {
		return spread
	}
	return 0
}

// run runs the client of a database, once it is known which rows there are already.
func (s *Source) run(ctx context.Context, c *connection) {
	if s.warm.begin != nil {
		select {
		case <-s.warm.begin:
		case <-ctx.Done():
			return
		}
	}
	// The only error beside that of ctx is for an incomplete Config.
	_ = c.client.Run(ctx)
}

func (s *Source) stop() {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.warm.timers {
		t.Stop()
	}
	if s.rebuildTimer != nil {
		s.rebuildTimer.Stop()
	}
	if s.dueTimer != nil {
		s.dueTimer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.wait.Wait()
	s.save(true)
}

// Snapshot returns the present snapshot, never nil.
func (s *Source) Snapshot() *ovn.Snapshot { return s.snapshot.Load() }

// Changed returns a channel that is closed when the snapshot is next replaced.
// Take it before the snapshot, and no change is missed:
//
//	changed := s.Changed()
//	use(s.Snapshot())
//	<-changed
func (s *Source) Changed() <-chan struct{} { return *s.changed.Load() }

// Status returns the state of the databases.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all Status
	for _, d := range s.databases {
		status := d.status
		status.Server, status.Counts = d.client.Server(), d.client.Counts()
		all = append(all, status)
	}
	return all
}

// update changes the conditions if other rows are wanted, and replaces the snapshot if rows
// have changed. mu is held.
//
// The next snapshot is delayed by three times what this one took, a second at most, so that
// a flood of changes costs a quarter of a processor and not all of it.
func (s *Source) update() {
	if s.closed {
		return
	}
	for _, d := range s.databases {
		if !d.filled {
			return // its first Commit calls update again
		}
	}
	s.takeChanges()
	at := s.clock()
	again := s.retainGuests(s.snapshot.Load(), at)
	s.setConditions(at)
	if s.sb != nil && len(s.sbConn.InFlight) == 0 {
		s.sb.UpdateCoPP()
		s.takeChanges()
	}
	s.resetDueTimer(binding.Earlier(again, s.conditionsDue()))
	if !s.isDirty() {
		return
	}
	now := time.Now()
	if wait := s.notBefore.Sub(now); wait > 0 {
		s.updateAfter(wait)
		return
	}
	prev := s.snapshot.Load()
	next := s.build(prev)
	s.built(next)
	took := time.Since(now)
	next.Time, next.Stats.Rebuild = now.Add(took), took
	if s.anyRestored() {
		next.Time = s.warm.asOf
	}
	s.notBefore = now.Add(took).Add(min(3*took, time.Second))
	s.snapshot.Store(next)
	changed := make(chan struct{})
	close(*s.changed.Swap(&changed))
}

// updateAfter starts the timer of the next update, unless it runs already. mu is held.
func (s *Source) updateAfter(wait time.Duration) {
	if s.rebuildTimer != nil {
		return
	}
	s.rebuildTimer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rebuildTimer = nil
		s.update()
	})
}

// resetDueTimer has update called at a time; zero is for never. mu is held.
func (s *Source) resetDueTimer(at time.Time) {
	if s.dueTimer != nil {
		s.dueTimer.Stop()
		s.dueTimer = nil
	}
	if !at.IsZero() {
		s.dueTimer = time.AfterFunc(at.Sub(s.clock()), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.update()
		})
	}
}
