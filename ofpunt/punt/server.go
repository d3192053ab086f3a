// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/lastquery"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Chains answers a query, or does not: the plugin chains of a Corefile for one bridge.
type Chains interface {
	ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg)
}

// Config is what a [Server] is made of.
type Config struct {
	Chains Chains
	// Context is what the chains get beside the exchange and its origin.
	Context context.Context
	// Guests says who is a guest of the bridge. Snapshot returns what the databases say, and is nil without
	// databases. It must not block.
	Guests   *guests.Rules
	Snapshot func() *ovn.Snapshot
	// Answers reports whether a chain answers o for a name without another server. The name is fully
	// qualified and in lower case. It must not block.
	Answers func(o *origin.Origin, qname string) bool
	// OVNOwned reports whether OVN owns the row of the name, as o sees it. The name is fully qualified and in
	// lower case. It must not block.
	OVNOwned func(o *origin.Origin, qname string) bool

	// Concurrent is how many queries may be in flight, ConcurrentGuest how many of one guest.
	Concurrent, ConcurrentGuest int
	// DropOverload is set if a query over these limits gets no answer instead of SERVFAIL.
	DropOverload bool
	// Recursive is set if a chain offers recursion; Transfers if one does zone transfers,
	// which the others then refuse by Exchange.RefuseTransfer.
	Recursive, Transfers bool
	// FromMemory is set if no chain blocks over a name that Find finds. Find looks a name up in the
	// databases, and stores the result in found for the chain. The name is fully qualified and in lower case.
	// Find must not block.
	FromMemory bool
	Find       func(o *origin.Origin, qname string, found *ovn.LookupCache) bool

	// ReadTimeout is how long a message of a TCP connection may take, and the first one to
	// begin; IdleTimeout how long a connection may be idle behind the first. MaxTCPQueries is
	// how many queries a connection may have, below 0 any number.
	ReadTimeout, IdleTimeout time.Duration
	MaxTCPQueries            int
	// Why is the zone in which a guest may ask what has become of its last queries, fully qualified and in lower
	// case, empty for none.
	Why string
}

// Server answers the queries of a bridge, for one Corefile. It is safe for concurrent use.
type Server struct {
	Config
	admission *admission
	// workersUntil is until when all queries are left to workers, though the chains answer
	// from memory: one has blocked the reader. It is in Unix nanoseconds.
	workersUntil atomic.Int64
	// panicked is set once a panic has been logged, unpackable once an answer that can't be
	// packed has.
	panicked, unpackable atomic.Bool
	// lastQueries has the last queries of the guests, nil without Config.Why.
	lastQueries *lastquery.Store
}

// NewServer returns a server without a query in flight.
func NewServer(c Config) *Server {
	if c.Context == nil {
		c.Context = context.Background()
	}
	s := &Server{Config: c, admission: newAdmission(c.Concurrent)}
	if c.Why != "" {
		s.lastQueries = lastquery.NewStore()
	}
	return s
}

// InFlight returns how many queries are in flight.
func (s *Server) InFlight() int64 { return s.admission.count.Load() }

// hijack reports whether queries to every destination are punted.
func (s *Server) hijack() bool { return s.Guests.Hijack() }

// isOVN reports whether packets have been through OVN's pipeline, whose registers name their sender.
func (s *Server) isOVN() bool { return s.Guests.Placement == placement.OVN }

// snapshot returns what the databases say, nil without databases.
func (s *Server) snapshot() *ovn.Snapshot {
	if s.Snapshot == nil {
		return nil
	}
	return s.Snapshot()
}

// workersOnlyTime is how long all queries are left to workers once one has blocked a reader: a
// chain may block after all, or the machine was busy.
const workersOnlyTime = time.Minute

// mayRunOnReader reports whether the reader of the connection may run queries.
func (s *Server) mayRunOnReader(now time.Time) bool {
	return s.FromMemory && now.UnixNano() > s.workersUntil.Load()
}

// readerBlocked records that a query has blocked a reader.
func (s *Server) readerBlocked(bridge string, now time.Time) {
	if s.workersUntil.Swap(now.Add(workersOnlyTime).UnixNano()) == 0 {
		log.Infof("Bridge %s: a query kept the reader of the connection for some 100 ms, others are left to workers for a minute", bridge)
	}
}
