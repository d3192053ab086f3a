// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/tcp"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// answerDeadline is when a query whose chain is silent gets its SERVFAIL: within
// the 5 s after which stub resolvers give up (resolv.conf(5), timeout).
const answerDeadline = 4500 * time.Millisecond

// DrainTimeout is how long the queries of a server that is replaced may take. It is a
// little more than a chain has to answer, after which each of them has its answer.
const DrainTimeout = answerDeadline + 500*time.Millisecond

// Bridge is what an [Intake] needs of its bridge.
type Bridge struct {
	Name  string
	Tally *metric.Tally
	// Refusals gets the guests that limits have turned away. It is nil if they are not logged.
	Refusals *refusals.Ledger
	// Watch gets each query that has been dealt with. It is nil if nothing can watch.
	Watch *watch.Feed
	Ports *ports.Owners
	// Conn is the newest connection to the switch, nil without one: TCP connections of
	// guests outlive it.
	Conn *atomic.Pointer[openflow.Conn]
	// Draining is set once no further query is wanted: TCP connections are to end.
	Draining *atomic.Bool
}

// Intake takes the packet-ins of one bridge, by whatever connection they come, and has the
// server that is current answer them. It is safe for concurrent use.
type Intake struct {
	bridge  Bridge
	workers *workers
	// tcp has the connections of the guests. It is nil without TCP.
	tcp    *tcp.Stack
	server atomic.Pointer[Server]
	// counts are of the queries in flight of all servers.
	counts *counts
	// arrived counts the packet-ins of our punts, without the probes of the lease.
	arrived atomic.Uint64

	ctx    context.Context // of all goroutines but the workers
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// servers are the current one and those that have queries in flight; mu guards them.
	servers []*Server
}

// NewIntake returns the intake of a bridge, which has to be closed. It needs a server
// before its first packet-in.
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

// newIntake returns an intake without goroutines.
func newIntake(b Bridge, stack *tcp.Stack) *Intake {
	ctx, cancel := context.WithCancel(context.Background())
	in := &Intake{bridge: b, workers: newWorkers(), tcp: stack, counts: newCounts(), ctx: ctx, cancel: cancel}
	if stack != nil {
		stack.Handle(in.takeFirst, replyTo)
	}
	return in
}

// Arrived returns how many packets have been punted to this process so far, probes apart.
func (in *Intake) Arrived() uint64 { return in.arrived.Load() }

// Use makes s the current server. Queries that are in flight stay with theirs.
func (in *Intake) Use(s *Server) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.admission.counts != in.counts { // of a server that was current before, queries are in flight
		s.admission.counts = in.counts
	}
	in.servers = append(slices.DeleteFunc(in.servers, func(o *Server) bool { return o == s }), s)
	in.server.Store(s)
}

// ResetConnections resets the TCP connections of the guests, and takes no further ones. It
// reports whether there were any: the switch has to get the resets.
func (in *Intake) ResetConnections() bool {
	if in.tcp == nil {
		return false
	}
	were := in.tcp.Connections() > 0
	in.tcp.Close()
	return were
}

// Close ends all goroutines and waits for them, workers without a query apart. No
// connection to the switch may be served any more.
func (in *Intake) Close() {
	in.ResetConnections()
	in.cancel()
	in.done.Wait()
	in.workers.end()
}

// watch answers for chains that take too long, and ends TCP connections that do.
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

// expire answers the queries whose deadline is over, and returns how many are in flight.
// It drops servers that are replaced and have none.
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

// InFlight returns how many queries are in the chains. Queries of replaced servers count.
func (in *Intake) InFlight() (n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.servers {
		n += s.InFlight()
	}
	return n
}

// Connections returns how many TCP connections of guests are open.
func (in *Intake) Connections() int {
	if in.tcp == nil {
		return 0
	}
	return in.tcp.Connections()
}

func (in *Intake) countConnections() { in.bridge.Tally.TCPConnections(in.tcp.Connections()) }
