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

// Chains are a bridge's plugin chains. They may leave a query unanswered.
type Chains interface {
	ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg)
}

// Config configures a [Server]. Its functions must not block; their names are fully qualified and lower case.
type Config struct {
	Chains Chains
	// Context is the context of the chains, without the exchange and its origin.
	Context context.Context
	// Snapshot returns the database snapshot, and is nil without databases.
	Guests   *guests.Rules
	Snapshot func() *ovn.Snapshot
	// Answers reports whether a chain itself answers a name for o.
	Answers func(o *origin.Origin, qname string) bool
	// OVNOwned reports whether OVN owns the row of a name, as o sees it.
	OVNOwned func(o *origin.Origin, qname string) bool

	// Concurrent bounds the queries in flight, ConcurrentGuest those of one guest.
	Concurrent, ConcurrentGuest int
	// DropOverload drops queries over these limits instead of SERVFAIL.
	DropOverload bool
	// Recursive is set if a chain offers recursion, Transfers if a chain does zone transfers. Other chains use
	// Exchange.RefuseTransfer.
	Recursive, Transfers bool
	// FromMemory is set if no chain blocks for a name that Find finds. Find stores the database result in found.
	FromMemory bool
	Find       func(o *origin.Origin, qname string, found *ovn.LookupCache) bool
	// FromCache is set if each chain calls LeaveReader before it blocks.
	FromCache bool

	// ReadTimeout bounds a TCP message and the wait for the first one; IdleTimeout bounds later waits.
	// MaxTCPQueries bounds the queries of a connection, below 0 is unlimited.
	ReadTimeout, IdleTimeout time.Duration
	MaxTCPQueries            int
	// Why is the zone of the property *why*, empty for none.
	Why string
}

// Server answers the queries of a bridge for one Corefile. It is safe for concurrent use.
type Server struct {
	Config
	admission *admission
	// in Unix nanoseconds, set by readerBlocked
	workersUntil atomic.Int64
	hits         hitBalance
	// The first panic and the first unpackable answer are logged.
	panicked, unpackable atomic.Bool
	// nil without Config.Why
	lastQueries *lastquery.Store
}

// NewServer returns a server without queries in flight.
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

func (s *Server) hijack() bool { return s.Guests.Hijack() }

// isOVN reports whether registers of OVN's pipeline identify senders.
func (s *Server) isOVN() bool { return s.Guests.Placement == placement.OVN }

func (s *Server) snapshot() *ovn.Snapshot {
	if s.Snapshot == nil {
		return nil
	}
	return s.Snapshot()
}
