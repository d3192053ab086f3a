// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/tcp"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// answerDeadline is when a query gets SERVFAIL. Stub resolvers give up after 5 s (resolv.conf(5), timeout).
const answerDeadline = 4500 * time.Millisecond

// DrainTimeout bounds the queries of a replaced server.
const DrainTimeout = answerDeadline + 500*time.Millisecond

// Bridge is what an [Intake] needs of its bridge.
type Bridge struct {
	Name  string
	Tally *metric.Tally
	// nil if refusals are not logged
	Refusals *refusals.Ledger
	// nil without watchers
	Watch *watch.Feed
	Ports *ports.Owners
	// Conn is the newest connection to the switch, nil without one. TCP connections outlive it.
	Conn *atomic.Pointer[openflow.Conn]
	// Open and Stands are opening.Opener for a guest.
	Open   func(ctx context.Context, guest placement.Key, a *opening.Answer) error
	Stands func(of placement.Opening, name string, lasts time.Duration) bool
	// Draining is set at shutdown.
	Draining *atomic.Bool
}

// Intake passes the packet-ins of a bridge's connections to the current server. It is safe for concurrent use.
type Intake struct {
	bridge  Bridge
	workers *workers
	// nil without TCP
	tcp    *tcp.Stack
	server atomic.Pointer[Server]
	// queries in flight of all servers
	counts *counts
	// punts, without probes of the lease
	arrived atomic.Uint64

	ctx    context.Context // of all goroutines except workers
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// the current server and servers with queries in flight; guarded by mu
	servers []*Server
}

// NewIntake returns the intake of a bridge. Call Use before the first packet-in, and Close at the end.
func NewIntake(b Bridge) *Intake {
	stack, err := tcp.New()
	if err != nil {
		log.Errorf("Bridge %s: %v; DNS over TCP is not answered", b.Name, err)
	}
	in := newIntake(b, stack)
	if stack != nil {
		in.done.Go(in.accept)
	}
	in.done.Go(in.watch)
	return in
}

func newIntake(b Bridge, stack *tcp.Stack) *Intake {
	ctx, cancel := context.WithCancel(context.Background())
	in := &Intake{bridge: b, workers: newWorkers(), tcp: stack, counts: newCounts(), ctx: ctx, cancel: cancel}
	if stack != nil {
		stack.Handle(in.takeFirst, replyTo)
	}
	return in
}

// Arrived returns the number of punted packets, without probes.
func (in *Intake) Arrived() uint64 { return in.arrived.Load() }

// Use makes s the current server. Queries in flight keep their server.
func (in *Intake) Use(s *Server) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.admission.counts != in.counts { // a previous server has queries in flight
		s.admission.counts = in.counts
	}
	in.servers = append(slices.DeleteFunc(in.servers, func(o *Server) bool { return o == s }), s)
	in.server.Store(s)
}

// ResetConnections resets the guests' TCP connections and accepts no more. It reports whether any were open, so
// that the caller flushes the resets.
func (in *Intake) ResetConnections() bool {
	if in.tcp == nil {
		return false
	}
	were := in.tcp.Connections() > 0
	in.tcp.Close()
	return were
}

// Close ends all goroutines except workers with a query. Close connections to the switch before.
func (in *Intake) Close() {
	in.ResetConnections()
	in.cancel()
	in.done.Wait()
	in.workers.end()
}

func (in *Intake) watch() {
	t := time.NewTicker(answerDeadline / 20)
	defer t.Stop()
	for {
		select {
		case <-in.ctx.Done():
			return
		case now := <-t.C:
			in.bridge.Tally.InFlight(in.expire(now))
			if in.tcp != nil {
				in.tcp.Sweep(now)
				in.countConnections()
			}
		}
	}
}

// expire answers at the deadline, removes idle replaced servers, and returns how many queries are in flight.
func (in *Intake) expire(now time.Time) (inFlight int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.servers = slices.DeleteFunc(in.servers, func(s *Server) bool {
		s.admission.expire(now.Add(-answerDeadline))
		s.admission.watch(now)
		n := s.InFlight()
		inFlight += n
		return n == 0 && s != in.server.Load()
	})
	return inFlight
}

// InFlight returns how many queries are in the chains of all servers.
func (in *Intake) InFlight() (n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.servers {
		n += s.InFlight()
	}
	return n
}

// Connections returns the number of open TCP connections.
func (in *Intake) Connections() int {
	if in.tcp == nil {
		return 0
	}
	return in.tcp.Connections()
}

func (in *Intake) countConnections() { in.bridge.Tally.TCPConnections(in.tcp.Connections()) }
