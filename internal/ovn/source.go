// SPDX-License-Identifier: Apache-2.0

// Package ovn turns the rows of the OVN databases into snapshots of networks,
// ports and names. It is the only place that knows the schemas ovn-sb(5) and
// ovn-nb(5).
package ovn

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Source reads the databases of one Config and keeps a Snapshot of them. With
// an outage the last snapshot stays, until the contents of a new connection are
// complete.
type Source struct {
	key    string
	cancel context.CancelFunc
	wait   sync.WaitGroup

	snapshot atomic.Pointer[Snapshot]
	changed  atomic.Pointer[chan struct{}]

	// mu guards the rows, which the goroutines of both clients write, and all
	// that follows from them.
	mu sync.Mutex
	world
	timer     *time.Timer
	notBefore time.Time
	closed    bool
}

var (
	sourcesMu sync.Mutex
	sources   = make(map[string]*shared)
)

type shared struct {
	source *Source
	refs   int
}

// Acquire returns the Source of a configuration: the running one if somebody
// has acquired it before, else a new one. Each Acquire needs a Release. It does
// not wait for a connection.
func Acquire(cfg Config) (*Source, error) {
	sb, nb, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	sourcesMu.Lock()
	defer sourcesMu.Unlock()
	key := cfg.Key()
	if s := sources[key]; s != nil {
		s.refs++
		return s.source, nil
	}
	var conf *tls.Config
	if cfg.TLS != (endpoint.TLSFiles{}) {
		if conf, err = cfg.TLS.Config(false); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	s := start(cfg, sb, nb, conf)
	s.key = key
	sources[key] = &shared{source: s, refs: 1}
	return s, nil
}

// Release gives the Source back. At the last Release its connections end, and
// its goroutines have ended when Release returns.
func (s *Source) Release() {
	sourcesMu.Lock()
	sh := sources[s.key]
	if sh == nil || sh.source != s {
		sourcesMu.Unlock()
		return
	}
	sh.refs--
	last := sh.refs == 0
	if last {
		delete(sources, s.key)
	}
	sourcesMu.Unlock()
	if last {
		s.stop()
	}
}

func start(cfg Config, sb, nb []endpoint.Endpoint, conf *tls.Config) *Source {
	s := &Source{}
	s.snapshot.Store(&Snapshot{})
	changed := make(chan struct{})
	s.changed.Store(&changed)
	s.world.init(cfg.Monitor == Local, cfg.Log)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	// Each database looks at the other: both are there before a client delivers.
	if len(sb) > 0 {
		s.sb = newSouthbound(&s.world)
	}
	if len(nb) > 0 {
		s.nb = newNorthbound(&s.world)
	}
	if s.sb != nil {
		s.sb.client = ovsdb.New(ovsdb.Config{
			Database: Southbound, Endpoints: sb, TLS: conf, Tables: s.sb.tables(), Receiver: receiver{s, s.sb},
		})
	}
	if s.nb != nil {
		s.nb.client = ovsdb.New(ovsdb.Config{
			Database: Northbound, Endpoints: nb, TLS: conf, Tables: s.nb.tables(), Receiver: receiver{s, s.nb},
		})
	}
	for _, d := range s.databases() {
		s.wait.Go(func() {
			// The only error beside that of ctx is for an incomplete Config.
			_ = d.client.Run(ctx)
		})
	}
	return s
}

func (s *Source) stop() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.wait.Wait()
}

// Snapshot returns the present snapshot, never nil.
func (s *Source) Snapshot() *Snapshot { return s.snapshot.Load() }

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
	for _, d := range s.databases() {
		all = append(all, d.status)
	}
	return all
}

// SetChassis names the local chassis: external_ids:system-id of the local
// Open_vSwitch, which is Chassis.name. Empty is none.
func (s *Source) SetChassis(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chassis == name {
		return
	}
	s.chassis = name
	if s.sb != nil {
		s.sb.locate()
	}
	s.update()
}

// AddNetwork asks for the networks with that Logical_Switch.name whatever the
// guests here: for queries that did not come through a punt. The function that
// it returns takes that back.
func (s *Source) AddNetwork(name string) (remove func()) {
	s.addNetwork(name, 1)
	return sync.OnceFunc(func() { s.addNetwork(name, -1) })
}

func (s *Source) addNetwork(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.extra[name] += n; s.extra[name] <= 0 {
		delete(s.extra, name)
	}
	s.want = true
	s.update()
}

// JoinNetworks asks for Snapshot.RouterScope, and so for the networks that are
// joined to those of the guests here and of AddNetwork. The function that it
// returns takes that back.
func (s *Source) JoinNetworks() (leave func()) {
	s.joinNetworks(1)
	return sync.OnceFunc(func() { s.joinNetworks(-1) })
}

func (s *Source) joinNetworks(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wantGroups(n)
	s.update()
}

// SetPorts names the guests that are here, by external_ids:iface-id of the
// local Interfaces, as far as one of those who share the Source knows: a process
// may serve several bridges. It counts where Northbound is read alone, and until
// the first call no snapshot of that is settled.
func (s *Source) SetPorts(of any, names []string) {
	s.setPorts(func(known map[any][]string) { known[of] = names })
}

// ForgetPorts takes back what SetPorts named.
func (s *Source) ForgetPorts(of any) {
	s.setPorts(func(known map[any][]string) { delete(known, of) })
}

func (s *Source) setPorts(edit func(map[any][]string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb != nil {
		return
	}
	before := len(s.told)
	edit(s.told)
	names := slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, some := range s.told {
			for _, name := range some {
				if !yield(name) {
					return
				}
			}
		}
	}))
	if slices.Equal(names, s.here) && len(s.told) == before {
		return
	}
	for _, name := range append(slices.Clone(s.here), names...) {
		s.nb.dirtyPortNamed(name)
	}
	s.here = names
	// No snapshot is settled before the databases have followed, the present one
	// neither: the next may take a while.
	s.want, s.recheck = true, true
	if now := s.snapshot.Load(); now.Settled {
		now := *now
		now.Settled = false
		s.snapshot.Store(&now)
	}
	s.update()
}

// update asks for other rows if need be, and replaces the snapshot if rows have
// changed and the picture is consistent. mu is held.
//
// The next time is put off by a multiple of what this one took, so that a flood
// of changes costs a quarter of a processor and not all of it.
func (s *Source) update() {
	if s.closed {
		return
	}
	for _, d := range s.databases() {
		if d.open {
			return // its Commit comes back here
		}
	}
	s.ask()
	if !s.pending() {
		return
	}
	now := time.Now()
	if wait := s.notBefore.Sub(now); wait > 0 {
		if s.timer == nil {
			s.timer = time.AfterFunc(wait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.timer = nil
				s.update()
			})
		}
		return
	}
	next := s.build(s.snapshot.Load())
	took := time.Since(now)
	next.Time, next.Stats.Rebuild = now.Add(took), took
	s.notBefore = next.Time.Add(min(3*took, time.Second))
	s.snapshot.Store(next)
	changed := make(chan struct{})
	close(*s.changed.Swap(&changed))
}

// receiver is the ovsdb.Receiver of one database.
type receiver struct {
	source *Source
	db     interface {
		base() *database
		row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row)
		sweep()
	}
}

func (r receiver) Reset() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.base()
	d.open, d.syncing = true, true
	d.generation++
}

func (r receiver) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.base().open = true
	r.db.row(table, id, op, row)
	return nil
}

func (r receiver) Conditions(gen uint64) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if r.db.base().acknowledge(gen) {
		r.source.recheck = true
		r.source.touchAll()
	}
}

func (r receiver) Commit() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	d := r.db.base()
	if d.syncing {
		r.db.sweep()
	}
	d.open, d.syncing = false, false
	r.source.update()
}

func (r receiver) State(state ovsdb.State) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.db.base().status.set(state, r.source.log)
}
