// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/process"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Server returns the server that answers, nil before the first.
func (b *Bridge) Server() *Server { return b.current.Load() }

// Ask sends an operator's query to the chains of s.
func (b *Bridge) Ask(s *Server, q *punt.TestQuery) punt.TestResult { return b.punts.Ask(s.queries, q) }

// whyNotReady is empty for a served bridge.
func (b *Bridge) whyNotReady() string {
	s := b.current.Load()
	why := b.waiting()
	if why == "" && !s.synced() {
		why = process.OutOfSync
	}
	return cmp.Or(why, s.BindingProblem())
}

// waiting is whyNotReady without the OVN databases.
func (b *Bridge) waiting() string { return cmp.Or(b.stall.reason(), b.readiness.reason()) }

// Bridge is one Open vSwitch bridge. Only the session's goroutine uses unserved, served, withoutResolver, left,
// functions, flows and metersFailure.
type Bridge struct {
	name string
	// current is nil until the first setServer.
	current atomic.Pointer[Server]
	// readiness is ready while the connection is up and the flows are in place.
	readiness readiness
	successor successor
	// draining is set once the bridge withdraws its flows.
	draining atomic.Bool
	// placed counts sessions that have installed their flows.
	placed atomic.Int64
	// conn and openings are the newest session's, nil without one.
	conn     atomic.Pointer[openflow.Conn]
	openings atomic.Pointer[flows.Reconciler]
	tally    *metric.Tally
	feed     *watch.Feed
	// accepted has connections made during a trial.
	accepted *acceptedConns
	// refusals has the refusals by limits that are not logged yet.
	refusals refusals.Ledger
	punts    *punt.Intake
	unserved unservedPorts
	served   servedGuests
	// by network: no resolver address, a workload with a resolver address, ports of network functions
	withoutResolver, left, functions networkLog
	ports                            ports.Owners
	// flows remembers flows between sessions.
	flows flows.Memory
	// controllerID is for Corefiles without one. Only run's goroutine uses it and loggedFailure.
	controllerID uint16

	// state is nil without a session, then failure is why. localFailure is why the local database is not read, else
	// nil.
	state         atomic.Pointer[SessionState]
	failure       atomic.Pointer[error]
	localFailure  atomic.Pointer[error]
	stall         stall
	asking        atomic.Bool
	loggedFailure string
	counter       counter
	metersFailure string

	// wake wakes the session after a change of server or view.
	wake     chan struct{} // capacity 1
	withdraw chan withdrawal
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup

	// mu guards local and loggedChassis.
	mu            sync.Mutex
	local         localWatch
	loggedChassis *string // nil before the first
}

// newControllerID returns a random id. The switch sends a packet-in to every connection with the id, so two
// processes, and two connections during a reload, need different ids. Id 0 is ovn-controller's.
func newControllerID() uint16 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand
	return controllerIDOf(binary.BigEndian.Uint64(b[:]))
}

// controllerIDOf maps random numbers evenly to ids from 1024; lower ids are for other controllers.
func controllerIDOf(n uint64) uint16 {
	const first = 1024
	return uint16(first + n%(1<<16-first))
}

func newBridge(name string, feed *watch.Feed, accepted *acceptedConns) *Bridge {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bridge{
		name: name, tally: metric.NewTally(name), cancel: cancel, ctx: ctx, controllerID: newControllerID(),
		wake: make(chan struct{}, 1), withdraw: make(chan withdrawal), counter: newCounter(), feed: feed, accepted: accepted,
	}
	b.punts = punt.NewIntake(b.puntBridge())
	metric.Connected.WithLabelValues(name).Set(0)
	metric.LocalDatabaseUp.WithLabelValues(name).Set(0)
	b.done.Go(func() { b.run(ctx) })
	return b
}

func (b *Bridge) puntBridge() punt.Bridge {
	return punt.Bridge{Name: b.name, Tally: b.tally, Refusals: &b.refusals, Watch: b.feed, Ports: &b.ports, Conn: &b.conn, Draining: &b.draining, Open: b.open, Stands: b.stands}
}

// open opens the destinations of a guest's answer.
func (b *Bridge) open(ctx context.Context, guest placement.Key, a *opening.Answer) error {
	f := b.openings.Load()
	if f == nil {
		return errors.New("there is no connection to the switch")
	}
	return f.Open(ctx, guest, a)
}

func (b *Bridge) stands(of placement.Opening, name string, lasts time.Duration) bool {
	f := b.openings.Load()
	return f != nil && f.Stands(of, name, lasts)
}

// Openings asks the switch for the open destinations of guests with an egress policy.
func (b *Bridge) Openings(ctx context.Context) ([]flows.Opened, error) {
	conn := b.conn.Load()
	if conn == nil {
		return nil, errors.New("there is no connection to the switch")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := flows.ReadOpenings(ctx, conn)
	return all, sayHang(err)
}

// setServer makes s answer. Queries in flight stay with the previous server.
func (b *Bridge) setServer(s *Server) {
	b.mu.Lock()
	b.punts.Use(s.queries) // the session begins once there is a current server
	b.current.Store(s)
	b.draining.Store(false)
	b.watchLocal(b.ctx, s)
	b.mu.Unlock()
	notify(b.wake)
}

// notify wakes the receiver of a channel of capacity 1 without blocking.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

type withdrawal struct {
	// keep is [flows.Withdraw.Keep].
	keep bool
	// The session closes gone after the withdrawal.
	gone chan struct{}
}

// withdrawFlows stops the punt, waiting for punt.DrainTimeout at most.
func (b *Bridge) withdrawFlows(keep bool) {
	ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
	defer cancel()
	b.draining.Store(true)
	w := withdrawal{keep, make(chan struct{})}
	select {
	case b.withdraw <- w:
		select {
		case <-w.gone:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// flush waits until the switch has processed all answers.
func (b *Bridge) flush(ctx context.Context) {
	if c := b.conn.Load(); c != nil {
		_ = c.Barrier(ctx) // the connection may be gone, and the answers with it
	}
}

// awaitSettled reports whether s knows all guests before ctx ends. A reload must not lose answers.
func (b *Bridge) awaitSettled(ctx context.Context, s *Server) bool {
	s.applyView(b.ports.View())
	return s.awaitSnapshot(ctx, func(now *ovn.Snapshot) bool { return now.Settled })
}

// awaitSnapshot reports whether a snapshot was enough before ctx ended; a later one may not be. It is true without
// databases.
func (s *Server) awaitSnapshot(ctx context.Context, isEnough func(*ovn.Snapshot) bool) bool {
	for s.source != nil {
		changed := s.source.Changed()
		if isEnough(s.source.Snapshot()) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (b *Bridge) close() {
	if b.punts.ResetConnections() {
		// the resets must reach the guests
		ctx, cancel := context.WithTimeout(b.ctx, closeTimeout)
		b.flush(ctx)
		cancel()
	}
	b.cancel()
	b.done.Wait()
	b.punts.Close()
	// A bridge that no Corefile names is neither up nor down.
	b.tally.SetNetworks(nil)
	for _, g := range []*prometheus.GaugeVec{metric.LeaseRenewed, metric.Connected, metric.LocalDatabaseUp, metric.Flows, metric.OpenDestinations, metric.Retained, metric.Guests, metric.WithoutAddress, metric.Unserved, metric.InFlight, metric.TCPConnections} {
		g.DeleteLabelValues(b.name)
	}
}

func (b *Bridge) zeroFlowMetrics() {
	for _, g := range []*prometheus.GaugeVec{metric.Flows, metric.OpenDestinations, metric.EgressOpen, metric.Guests, metric.WithoutAddress, metric.Retained, metric.Unserved} {
		g.WithLabelValues(b.name).Set(0)
	}
}

// countRetained counts guests that are served without a binding, for the grace.
func (b *Bridge) countRetained(srv *Server) int {
	view := b.ports.View()
	if srv.source == nil || view == nil {
		return 0
	}
	if snapshot := srv.source.Snapshot(); snapshot.HasRetained() {
		return snapshot.CountRetained(view.IfaceIDs())
	}
	return 0
}

const closeTimeout = time.Second

func (b *Bridge) run(ctx context.Context) {
	for b.current.Load() == nil {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
	backoff := endpoint.Backoff{Min: minRetry, Max: maxRetry}
	refusing := false
	for ctx.Err() == nil {
		options := b.current.Load().Options
		// A switch that refuses flows is retried with backoff, and logged once.
		placed, up := b.placed.Load(), false
		err := b.connect(ctx, &options, func() {
			up = true
			b.failure.Store(nil)
			b.setStall(func(s *stall) { s.silent = false })
			metric.Connected.WithLabelValues(b.name).Set(1)
			if !refusing {
				log.Infof("Bridge %s: connected to %s", b.name, options.OpenFlow)
			}
		})
		err = sayHang(err)
		b.disconnected(err)
		refusing = up && b.placed.Load() == placed && !errors.Is(err, errOptions)
		if b.placed.Load() != placed {
			backoff.Reset()
			b.loggedFailure = ""
		}
		if errors.Is(err, errOptions) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		b.logFailure(err)
		b.backOff(ctx, backoff.Next())
	}
}

// err is nil after an orderly end.
func (b *Bridge) disconnected(err error) {
	b.showEnd(err)
	if b.ctx.Err() == nil && !errors.Is(err, errOptions) {
		b.setStall(func(s *stall) { s.silent = isHang(err) })
	}
	metric.Connected.WithLabelValues(b.name).Set(0)
	b.zeroFlowMetrics()
	if err != nil {
		b.readiness.set(err.Error())
	} else {
		b.readiness.set("the connection to the switch has ended")
	}
}

// setStall logs stalls.
func (b *Bridge) logFailure(err error) {
	if err != nil && err.Error() != b.loggedFailure && b.stall.reason() == "" {
		b.loggedFailure = err.Error()
		log.Warningf("Bridge %s: %v", b.name, err)
	}
}

// Guests get answers within a second of the bridge's return, handshake and flows included.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// backOff confirms a withdrawal at once: without a connection only the lease ends flows.
func (b *Bridge) backOff(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case w := <-b.withdraw:
			close(w.gone)
		}
	}
}
