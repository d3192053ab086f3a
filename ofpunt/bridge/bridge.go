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
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/process"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Server returns the server that answers, nil before the first.
func (b *Bridge) Server() *Server { return b.current.Load() }

// Ask takes a query of an operator to the chains of a server.
func (b *Bridge) Ask(s *Server, q *punt.TestQuery) punt.TestResult { return b.punts.Ask(s.queries, q) }

// whyNotReady says why the bridge is not served, empty if it is.
func (b *Bridge) whyNotReady() string {
	s := b.current.Load()
	why := b.waiting()
	if why == "" && !s.synced() {
		why = process.OutOfSync
	}
	return cmp.Or(why, s.BindingProblem())
}

// waiting returns why the bridge is not served, apart from the databases of names; empty if it is.
func (b *Bridge) waiting() string { return cmp.Or(b.stall.reason(), b.readiness.reason()) }

// Bridge is one Open vSwitch bridge, and the goroutine that connects to it (run).
type Bridge struct {
	name string
	// current is the server that answers; nil until the first setServer.
	current atomic.Pointer[Server]
	// readiness is ready while the connection is up and the flows are in place.
	readiness readiness
	// successor is the process that has taken the flows over, if there is one.
	successor successor
	// draining is set once the bridge withdraws its flows: no more queries are to come.
	draining atomic.Bool
	// placed counts the sessions that have had their flows in place.
	placed atomic.Int64
	// conn is the connection of the newest session, nil without one.
	conn  atomic.Pointer[openflow.Conn]
	tally *metric.Tally
	// feed shows the queries of the bridge to those who watch.
	feed *watch.Feed
	// accepted has connections from switches that a trial has accepted.
	accepted *acceptedConns
	// refusals has the refusals by limits that the log does not have yet.
	refusals refusals.Ledger
	// punts takes the packet-ins of all sessions.
	punts *punt.Intake
	// unserved has the interfaces that are not served. Only the goroutine of the session uses it.
	unserved unservedPorts
	// served has the number of guests before and after a reload.
	served servedGuests
	// withoutResolver are the networks whose guests have no resolver address, left the networks where
	// workloads have resolver addresses, and functions the networks with ports of network functions. The
	// goroutine of the session uses them.
	withoutResolver, left, functions networkLog
	// ports has the owners of the OpenFlow ports of the bridge.
	ports ports.Owners
	// flows is the memory of flows from one session to the next. Only the goroutine of the session uses it.
	flows flows.Memory
	// controllerID is for connections whose Corefile names none. Only the goroutine of run uses it.
	controllerID uint16

	// state is what the session shows an operator, nil without a session. failure is why there is no
	// session, and localFailure why the local database is not read; nil if neither.
	state        atomic.Pointer[SessionState]
	failure      atomic.Pointer[error]
	localFailure atomic.Pointer[error]
	// stall is whether the switch waits for the local ovsdb-server. asking is set while a barrier
	// finds out whether the switch answers.
	stall  stall
	asking atomic.Bool
	// loggedFailure is the last logged reason without a connection. Only the goroutine of run uses it.
	loggedFailure string
	// counter asks for the counters of the flows.
	counter counter
	// metersFailure is why limits are not enforced, empty if they are. Only the goroutine of the session uses
	// it.
	metersFailure string

	// wake wakes the session after a change of the server or of the view of the local database.
	wake chan struct{} // capacity 1
	// withdraw has the session withdraw the flows.
	withdraw chan withdrawal
	// ctx is of all goroutines of the bridge, which done counts.
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	// mu guards local and loggedChassis.
	mu            sync.Mutex
	local         localWatch
	loggedChassis *string // nil before the first
}

// newControllerID returns a random id. Two processes on a bridge need different ones, and so
// do two connections of one process while a reload replaces one: the switch sends a packet-in
// to every connection that has the id. Ids below 1024 are left to others; 0 is
// ovn-controller's.
func newControllerID() uint16 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand
	return controllerIDOf(binary.BigEndian.Uint64(b[:]))
}

// controllerIDOf returns the id of a random number. Each id from 1024 on is as likely as any other.
func controllerIDOf(n uint64) uint16 {
	const first = 1024
	return uint16(first + n%(1<<16-first))
}

// newBridge returns a bridge that connects once it has a server. feed shows its queries, and accepted has
// connections from switches.
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

// puntBridge is what package punt needs of b.
func (b *Bridge) puntBridge() punt.Bridge {
	return punt.Bridge{Name: b.name, Tally: b.tally, Refusals: &b.refusals, Watch: b.feed, Ports: &b.ports, Conn: &b.conn, Draining: &b.draining}
}

// setServer has s answer from now on. Queries in flight stay with the server before.
func (b *Bridge) setServer(s *Server) {
	b.mu.Lock()
	b.punts.Use(s.queries) // the session begins once there is a current server
	b.current.Store(s)
	b.draining.Store(false)
	b.watchLocal(b.ctx, s)
	b.mu.Unlock()
	notify(b.wake)
}

// notify wakes the receiver of a channel of capacity 1. It does not block.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// withdrawal asks a session to withdraw the flows.
type withdrawal struct {
	// keepClosed is set if the switch goes on dropping the packets of closed guests.
	keepClosed bool
	// gone is closed by the session when the flows are gone.
	gone chan struct{}
}

// withdrawFlows removes the flows from the switch, so that no further query comes. It waits
// until they are gone, for as long as a query may take at most.
func (b *Bridge) withdrawFlows(keepClosed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
	defer cancel()
	b.draining.Store(true)
	w := withdrawal{keepClosed, make(chan struct{})}
	select {
	case b.withdraw <- w:
		select {
		case <-w.gone:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// flush waits until the switch has processed every answer that was sent to it.
func (b *Bridge) flush(ctx context.Context) {
	if c := b.conn.Load(); c != nil {
		_ = c.Barrier(ctx) // the connection may be gone, and the answers with it
	}
}

// awaitSettled waits until s knows every guest of its databases, or ctx ends: a reload must
// not lose answers. It reports whether s does.
func (b *Bridge) awaitSettled(ctx context.Context, s *Server) bool {
	s.applyView(b.ports.View())
	return s.awaitSnapshot(ctx, func(now *ovn.Snapshot) bool { return now.Settled })
}

// awaitSnapshot waits for a snapshot that is enough, or for the end of ctx. It reports whether
// there was one; a later one may not be enough again. Without databases it is true.
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

// close resets the TCP connections of the guests, ends the connection to the switch, and waits
// for all goroutines of the bridge.
func (b *Bridge) close() {
	if b.punts.ResetConnections() {
		// The resets have to reach the guests.
		ctx, cancel := context.WithTimeout(b.ctx, closeTimeout)
		b.flush(ctx)
		cancel()
	}
	b.cancel()
	b.done.Wait()
	b.punts.Close()
	// A bridge that no Corefile names is neither up nor down.
	b.tally.SetNetworks(nil)
	for _, g := range []*prometheus.GaugeVec{metric.LeaseRenewed, metric.Connected, metric.LocalDatabaseUp, metric.Flows, metric.Kept, metric.Guests, metric.WithoutAddress, metric.Unserved, metric.InFlight, metric.TCPConnections} {
		g.DeleteLabelValues(b.name)
	}
}

// zeroFlowMetrics has the metrics say that the bridge has no flows of this process.
func (b *Bridge) zeroFlowMetrics() {
	for _, g := range []*prometheus.GaugeVec{metric.Flows, metric.Guests, metric.WithoutAddress, metric.Kept, metric.Unserved} {
		g.WithLabelValues(b.name).Set(0)
	}
}

// countKept returns how many guests of the bridge are served for the grace.
func (b *Bridge) countKept(srv *Server) int {
	view := b.ports.View()
	if srv.source == nil || view == nil {
		return 0
	}
	if snapshot := srv.source.Snapshot(); snapshot.HasRetained() {
		return snapshot.CountRetained(view.IfaceIDs())
	}
	return 0
}

// closeTimeout bounds how long close waits for the switch.
const closeTimeout = time.Second

// run makes sessions, one after the other, until ctx ends.
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
		// A switch that accepts the connection but refuses the flows is retried with
		// backoff, and logged once.
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

// disconnected shows that there is no connection, and why: err is nil if the last one has ended
// in order.
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

// logFailure logs why there is no connection, if that is new. setStall has logged a stall.
func (b *Bridge) logFailure(err error) {
	if err != nil && err.Error() != b.loggedFailure && b.stall.reason() == "" {
		b.loggedFailure = err.Error()
		log.Warningf("Bridge %s: %v", b.name, err)
	}
}

// minRetry and maxRetry bound the time between two attempts to connect. The guests of a bridge that is back
// get answers within a second, handshake and flows included.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// backOff waits for d. It confirms a withdrawal at once: without a connection no flow can be
// withdrawn, and the lease ends in time.
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
