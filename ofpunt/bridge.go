// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// bridges has the bridges of this process. It outlives the Corefile: on a reload
// the connections and flows stay, and what changes is who answers.
var bridges registry

type registry struct {
	mu sync.Mutex
	m  map[string]*bridge
}

// use makes s answer for its bridge, and starts the bridge if it is new.
func (r *registry) use(s *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.m[s.options.Bridge]
	if b == nil {
		b = newBridge(s.options.Bridge)
		if r.m == nil {
			r.m = map[string]*bridge{}
		}
		r.m[b.name] = b
	}
	b.use(s)
}

func (r *registry) get(name string) *bridge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[name]
}

// remove closes the connection of a bridge, once withdraw has taken its flows.
func (r *registry) remove(name string) {
	r.mu.Lock()
	b := r.m[name]
	delete(r.m, name)
	r.mu.Unlock()
	if b != nil {
		b.close()
	}
}

func (r *registry) ready() bool { return len(r.notReady()) == 0 }

// notReady is what the bridges wait for, none if they are served.
func (r *registry) notReady() (reasons []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.m) == 0 {
		return []string{"the plugins are being started"}
	}
	for _, name := range slices.Sorted(maps.Keys(r.m)) {
		b := r.m[name]
		s := b.current.Load()
		why := b.readiness.why()
		if why == "" && !s.synced() {
			why = "a database is not in sync"
		}
		if why = cmp.Or(why, s.unbound()); why != "" {
			reasons = append(reasons, "bridge "+name+": "+why)
		}
	}
	return reasons
}

// bridge is one Open vSwitch bridge: it keeps a connection to it.
type bridge struct {
	name    string
	current atomic.Pointer[server]
	// readiness is ready while the connection stands and the flows are in place.
	readiness readiness
	// leaving is set once the flows are to be withdrawn for good.
	leaving atomic.Bool
	// placed counts the sessions that have had their flows in place.
	placed atomic.Int64
	// conn is that of the newest session, nil without one.
	conn  atomic.Pointer[openflow.Conn]
	tally *metric.Tally
	// punts takes the packet-ins of all sessions.
	punts *punt.Intake
	// unserved is what the log was told of interfaces that are not served.
	unserved unservedPorts
	// ports tells who owns the OpenFlow ports of the bridge now.
	ports ports.Owners
	// flows is what outlives a session of what is known of the flows; the session's.
	flows flows.Memory
	// controllerID is for connections whose Corefile names none.
	controllerID uint16

	// wake tells the session that there is another server, or a withdrawal.
	wake     chan struct{}
	withdraw chan chan struct{}
	cancel   context.CancelFunc
	done     sync.WaitGroup

	// mu guards local and chassis.
	mu      sync.Mutex
	local   localWatch
	chassis *string         // the name that was logged, nil before
	ctx     context.Context // of everything that the bridge runs
}

// newControllerID makes up an id, so that of two processes on a bridge, and of two
// connections of one process while a reload replaces one, each gets its own
// packet-ins: the switch sends a copy to every connection that has the id. Small
// ones are left to others; 0 is ovn-controller's.
func newControllerID() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand
	return max(binary.BigEndian.Uint16(b[:]), 1024)
}

func newBridge(name string) *bridge {
	ctx, cancel := context.WithCancel(context.Background())
	b := &bridge{
		name: name, tally: metric.NewTally(name), cancel: cancel, ctx: ctx, controllerID: newControllerID(),
		wake: make(chan struct{}, 1), withdraw: make(chan chan struct{}),
	}
	b.punts = punt.NewIntake(b.forPunts())
	metric.Connected.WithLabelValues(name).Set(0)
	metric.LocalDatabaseUp.WithLabelValues(name).Set(0)
	b.done.Go(func() { b.run(ctx) })
	return b
}

// forPunts is what package punt needs of b.
func (b *bridge) forPunts() punt.Bridge {
	return punt.Bridge{Name: b.name, UserData: userData, Tally: b.tally, Ports: &b.ports, Conn: &b.conn, Leaving: &b.leaving}
}

// use swaps in s. Queries that are in the chains of the server before stay there.
func (b *bridge) use(s *server) {
	b.mu.Lock()
	b.punts.Use(s.punts) // the session begins once there is a current server
	b.current.Store(s)
	b.leaving.Store(false)
	b.watchLocal(b.ctx, s)
	b.mu.Unlock()
	poke(b.wake)
}

// poke leaves a mark in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// leave takes the flows out of the switch, so that no further query comes.
func (b *bridge) leave(ctx context.Context) {
	b.leaving.Store(true)
	gone := make(chan struct{})
	select {
	case b.withdraw <- gone:
		select {
		case <-gone:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// flush waits until the switch has had every answer.
func (b *bridge) flush(ctx context.Context) {
	if c := b.conn.Load(); c != nil {
		_ = c.Barrier(ctx) // the connection may be gone, and the answers with it
	}
}

// await waits until the databases of s have told everything, or ctx ends: a reload
// must not take answers away.
func (b *bridge) await(ctx context.Context, s *server) {
	s.learn(b.ports.View())
	s.await(ctx, func(now *ovn.Snapshot) bool { return now.Settled })
}

// await waits until what the databases have told is enough, or ctx ends.
func (s *server) await(ctx context.Context, isEnough func(*ovn.Snapshot) bool) {
	for s.source != nil {
		changed := s.source.Changed()
		if isEnough(s.source.Snapshot()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (b *bridge) close() {
	if b.punts.ResetConnections() {
		// The guests are to learn of it.
		ctx, cancel := context.WithTimeout(b.ctx, closeTimeout)
		b.flush(ctx)
		cancel()
	}
	b.cancel()
	b.done.Wait()
	b.punts.Close()
	// What is no longer named is neither up nor down.
	for _, g := range []*prometheus.GaugeVec{metric.Connected, metric.LocalDatabaseUp, metric.Flows, metric.Kept, metric.Guests, metric.Unserved, metric.InFlight, metric.TCPConnections} {
		g.DeleteLabelValues(b.name)
	}
}

// showNothingPlaced has the metrics say that the bridge has no flows of this process.
func (b *bridge) showNothingPlaced() {
	for _, g := range []*prometheus.GaugeVec{metric.Flows, metric.Guests, metric.Kept, metric.Unserved} {
		g.WithLabelValues(b.name).Set(0)
	}
}

// kept is how many guests of the bridge are served for the grace.
func (b *bridge) kept(srv *server) int {
	view := b.ports.View()
	if srv.source == nil || view == nil {
		return 0
	}
	if snapshot := srv.source.Snapshot(); snapshot.HasKept() {
		return snapshot.CountKept(view.IfaceIDs())
	}
	return 0
}

// closeTimeout bounds the wait for the switch at the end.
const closeTimeout = time.Second

// run keeps one session after the other until ctx ends.
func (b *bridge) run(ctx context.Context) {
	for b.current.Load() == nil {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
	backoff := endpoint.Backoff{Min: minRetry, Max: maxRetry}
	said, refusing := "", false
	for ctx.Err() == nil {
		options := b.current.Load().options
		// A switch that takes the connection but not the flows gets no new try at
		// once, and no new line in the log.
		placed, up := b.placed.Load(), false
		err := b.connect(ctx, &options, func() {
			up = true
			metric.Connected.WithLabelValues(b.name).Set(1)
			if !refusing {
				log.Infof("Bridge %s: connected to %s", b.name, options.OpenFlow)
			}
		})
		refusing = up && b.placed.Load() == placed && !errors.Is(err, errOptions)
		metric.Connected.WithLabelValues(b.name).Set(0)
		b.showNothingPlaced()
		switch {
		case err != nil:
			b.readiness.set(err.Error())
		default:
			b.readiness.set("the connection to the switch has ended")
		}
		if b.placed.Load() != placed {
			backoff.Reset()
			said = ""
		}
		if errors.Is(err, errOptions) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Warningf("Bridge %s: %v", b.name, err)
		}
		b.idle(ctx, backoff.Next())
	}
}

// Times between tries to connect. Guests of a bridge that is back are to be served
// within a second, the handshake and the flows included.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
)

// idle waits for d. Without a connection no flow can be withdrawn, and the lease
// does it in time.
func (b *bridge) idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case gone := <-b.withdraw:
			close(gone)
		}
	}
}
