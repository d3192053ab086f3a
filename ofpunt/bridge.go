// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/tcp"
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

func (r *registry) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.m {
		if !b.ready.Load() || !b.current.Load().synced() {
			return false
		}
	}
	// There is none while the Corefile's plugins are being started.
	return len(r.m) > 0
}

// bridge is one Open vSwitch bridge: it keeps a connection to it.
type bridge struct {
	name    string
	current atomic.Pointer[server]
	// ready is set while the connection stands and the flows are in place.
	ready atomic.Bool
	// leaving is set once the flows are to be withdrawn for good.
	leaving atomic.Bool
	// placed counts the sessions that have had their flows in place.
	placed atomic.Int64
	// conn is that of the newest session, nil without one.
	conn    atomic.Pointer[openflow.Conn]
	tally   *tally
	workers *workers
	// tcp has the connections of the guests. They outlive that to the switch.
	tcp *tcp.Stack
	// view is the local database's of the bridge, nil until it has told.
	view atomic.Pointer[localView]
	// generation is of this process's flows, set by the first session.
	generation uint64
	// controllerID is for connections whose Corefile names none.
	controllerID uint16

	// wake tells the session that there is another server, or a withdrawal.
	wake     chan struct{}
	withdraw chan chan struct{}
	cancel   context.CancelFunc
	done     sync.WaitGroup

	// servers are the current one and those whose queries are still in a chain.
	mu      sync.Mutex
	servers []*server
	local   localWatch
	// localRead is set while the local database is read; gone are the numbers of
	// ports that it still has and the switch has not.
	localRead atomic.Bool
	goneMu    sync.Mutex
	gone      map[uint32]tombstone
	ctx       context.Context // of everything that the bridge runs
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
		name: name, tally: newTally(name), cancel: cancel, ctx: ctx, controllerID: newControllerID(),
		workers: newWorkers(),
		wake:    make(chan struct{}, 1), withdraw: make(chan chan struct{}),
		gone: make(map[uint32]tombstone),
	}
	connected.WithLabelValues(name).Set(0)
	localUp.WithLabelValues(name).Set(0)
	var err error
	if b.tcp, err = tcp.New(); err != nil {
		log.Errorf("Bridge %s: %v; DNS over TCP is not answered", name, err)
	} else {
		b.done.Go(b.acceptStreams)
	}
	b.done.Go(func() { b.run(ctx) })
	b.done.Go(func() { b.watchDeadlines(ctx) })
	return b
}

// use swaps in s. Queries that are in the chains of the server before stay there.
func (b *bridge) use(s *server) {
	b.mu.Lock()
	b.servers = append(slices.DeleteFunc(b.servers, func(o *server) bool { return o == s }), s)
	b.current.Store(s)
	b.leaving.Store(false)
	b.watchLocal(b.ctx, s)
	b.mu.Unlock()
	poke(b.wake)
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
	s.learn(b.view.Load())
	for s.source != nil {
		changed := s.source.Changed()
		if s.settled() {
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
	if b.tcp != nil {
		b.tcp.Close()
		// The guests are to learn of it.
		ctx, cancel := context.WithTimeout(b.ctx, closeTimeout)
		b.flush(ctx)
		cancel()
	}
	b.cancel()
	b.done.Wait()
	b.workers.end()
	b.ready.Store(false)
	// What is no longer named is neither up nor down.
	for _, g := range []*prometheus.GaugeVec{connected, localUp, flowsGauge, inFlight, connections} {
		g.DeleteLabelValues(b.name)
	}
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
			connected.WithLabelValues(b.name).Set(1)
			if !refusing {
				log.Infof("Bridge %s: connected to %s", b.name, options.OpenFlow)
			}
		})
		refusing = up && b.placed.Load() == placed && !errors.Is(err, errOptions)
		connected.WithLabelValues(b.name).Set(0)
		flowsGauge.WithLabelValues(b.name).Set(0)
		b.ready.Store(false)
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

// watchDeadlines answers for chains that take too long.
func (b *bridge) watchDeadlines(ctx context.Context) {
	t := time.NewTicker(answerDeadline / 20)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			var pending int64
			b.mu.Lock()
			b.servers = slices.DeleteFunc(b.servers, func(s *server) bool {
				s.admission.expire(now.Add(-answerDeadline))
				s.admission.watch(now)
				n := s.admission.count.Load()
				pending += n
				return n == 0 && s != b.current.Load()
			})
			b.mu.Unlock()
			b.tally.inFlight.Set(float64(pending))
			if b.tcp != nil {
				b.tcp.Sweep(now)
				b.countConnections()
			}
		}
	}
}
