// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"context"
	"crypto/tls"
	"encoding/json"
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

// Source reads the databases of one Config and publishes Snapshots. During an outage it serves the last
// snapshot until a new connection has sent all rows. Any goroutine may call its methods.
type Source struct {
	config Config
	cancel context.CancelFunc
	wait   sync.WaitGroup

	snapshot atomic.Pointer[ovn.Snapshot]
	changed  atomic.Pointer[chan struct{}]

	mu    logMutex
	log   *logMutex
	local bool

	// topology is the view of the first database.
	databases []*connection
	topology  topology.View
	// sb, nb and their connections are nil unless configured.
	sb                *topology.Southbound
	nb                *topology.Northbound
	sbConn, nbConn    *connection
	connectNorthbound func([]ovsdb.TableRequest, ovsdb.Receiver) *ovsdb.Client
	selectSouthbound  func(context.Context, ...ovsdb.Query) ([]json.RawMessage, error)
	// follows is the generation of Southbound's conditions from which Northbound's were derived.
	follows uint64

	chassis    string
	references ovn.References
	logged     logged
	readers    map[*Reader]struct{}
	plugged    []string
	pluggedAt  map[string]time.Time
	warm       warm
	grace      grace
	components build.Components
	// scopeUsers, dnsServerUsers, gatewayUsers, forwardUsers, groupUsers and egressUsers count requests, see Requests.
	scopeUsers                   int
	labels                       labels
	dnsServerUsers, gatewayUsers int
	forwardUsers, groupUsers     int
	egressUsers                  int

	// dirty has the networks to build again; true includes their ports.
	dirty           map[origin.Network]bool
	coveredNetworks map[origin.Network]struct{}
	// awaitingGroups has the networks without a guest whose port groups have not come.
	awaitingGroups map[origin.Network]struct{}
	// coverageChanged is set when other networks may be covered.
	coverageChanged bool
	// conditionsDirty is set when other rows may be wanted.
	conditionsDirty bool
	builtFlows      uint64
	renamed         map[string]struct{}

	bad           problem.Registry
	builtProblems map[origin.Network]problem.Set

	// rebuildTimer calls update at notBefore, the earliest time of the next snapshot.
	rebuildTimer *time.Timer
	notBefore    time.Time
	// dueTimer calls update when the next grace ends or conditions are due.
	dueTimer *time.Timer
	clock    func() time.Time
	closed   bool
}

func start(cfg Config, sb, nb []endpoint.Endpoint, conf *tls.Config) *Source {
	s := newSource(cfg, sb, nb, conf)
	s.startGoroutines()
	return s
}

func newSource(cfg Config, sb, nb []endpoint.Endpoint, conf *tls.Config) *Source {
	s := &Source{
		config: cfg, clock: time.Now, local: cfg.Monitor == Local,
		references: ovn.NewReferences(), readers: make(map[*Reader]struct{}),
		dirty: make(map[origin.Network]bool), coveredNetworks: make(map[origin.Network]struct{}),
		awaitingGroups: make(map[origin.Network]struct{}),
		renamed:        make(map[string]struct{}), bad: problem.NewRegistry(),
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
				Shuffle: jitterOf(endpoints) > 0, ReconnectJitter: jitterOf(endpoints), Resume: from,
			})
		}
		c.client = c.connect(nil)
	}
	s.connectNorthbound = func(tables []ovsdb.TableRequest, to ovsdb.Receiver) *ovsdb.Client {
		return ovsdb.New(ovsdb.Config{Database: topology.NorthboundName, Endpoints: nb, TLS: conf, Tables: tables, Receiver: to})
	}
	s.selectSouthbound = func(ctx context.Context, queries ...ovsdb.Query) ([]json.RawMessage, error) {
		return ovsdb.Select(ctx, ovsdb.Config{Database: topology.SouthboundName, Endpoints: sb, TLS: conf}, queries...)
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

// ReaderOf returns a Reader of s without databases, for tests of other packages. It must not be closed.
func ReaderOf(s *ovn.Snapshot) *Reader {
	source := newSource(Config{}, nil, nil, nil)
	source.snapshot.Store(s)
	source.closed = true
	return source.open("")
}

// firstConditions request all rows, or no rows until setConditions.
func (s *Source) firstConditions() []ovsdb.Condition {
	if s.local {
		return []ovsdb.Condition{}
	}
	return nil
}

// addDatabases must run before any client: the rows of one database affect the other.
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

// reconnectJitter exists because a server that ends disconnects a client per node.
const reconnectJitter = 2 * time.Second

func jitterOf(endpoints []endpoint.Endpoint) time.Duration {
	if slices.ContainsFunc(endpoints, func(e endpoint.Endpoint) bool { return e.Network != "unix" }) {
		return reconnectJitter
	}
	return 0
}

func (s *Source) run(ctx context.Context, c *connection) {
	if s.warm.begin != nil {
		select {
		case <-s.warm.begin:
		case <-ctx.Done():
			return
		}
	}
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

// Changed returns a channel that is closed when the snapshot is replaced. Take it before the snapshot to miss
// no change:
//
//	changed := s.Changed()
//	use(s.Snapshot())
//	<-changed
func (s *Source) Changed() <-chan struct{} { return *s.changed.Load() }

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

// update replaces the conditions and the snapshot if rows have changed. mu is held.
//
// The next snapshot is delayed by three times the duration of this one, 1 s at most, so that a flood of
// changes costs a quarter of a processor.
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
