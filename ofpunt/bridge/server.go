// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// Chains are the compiled server blocks of a bridge.
type Chains interface {
	// Context returns the context of a query by a punt.
	Context() context.Context
	// Resumes reports whether queries without an answer go on to their destination.
	Resumes() bool
	// Loops returns a warning for each guest of the snapshot, nil for none, that a chain asks.
	Loops(*ovn.Snapshot) []string
	// Labels returns the labels of a query. ReportUpstreams adds the upstreams that do not answer to a status.
	Labels(*origin.Origin) []api.Label
	ReportUpstreams(to *api.Status)
}

// Config is what a [Server] is made of.
type Config struct {
	Options config.Bridge
	// Database says what the server reads, if HasDatabase is set. Requests is what its labels and limits
	// need of that.
	HasDatabase bool
	Database    ovndb.Config
	Requests    ovndb.Requests
	// More are what the ovnhosts of all blocks will ask of the databases. Only a trial sets them: it asks
	// before the plugins do.
	More []ovndb.Requests
}

// Server is the part of one Corefile for one bridge: all server blocks that name the bridge.
type Server struct {
	Config
	// chains are the compiled blocks, and queries takes queries to them. A trial has neither.
	chains  Chains
	queries *punt.Server
	// source reads the databases from Open to Close. It is nil without databases.
	source *ovndb.Reader
	// guests says who is served.
	guests *guests.Rules
	// wasSettled is set in a trial if the databases of the server before were settled.
	wasSettled bool
	// agentBoundNone is why placement neutron serves no guest, nil if it serves one. unboundSeen is set if
	// the last look found no guest. Only the goroutine of the session uses unboundSeen.
	agentBoundNone atomic.Pointer[string]
	unboundSeen    bool
	// loggedLoops has the warnings that logLoops has logged. Only the goroutine of the session uses it.
	loggedLoops map[string]bool
}

// NewServer returns a server that has no chains yet.
func NewServer(c Config) *Server {
	return &Server{Config: c, guests: guests.NewRules(c.Options.Config)}
}

// ServerOf returns a server that reads names, for tests.
func ServerOf(o config.Bridge, names *ovndb.Reader) *Server {
	s := NewServer(Config{Options: o, HasDatabase: true})
	s.source = names
	return s
}

// Answer gives the server its chains, and the server of the queries to them. Call it once, before the server
// is served.
func (s *Server) Answer(chains Chains, queries *punt.Server) { s.chains, s.queries = chains, queries }

// Chains returns the compiled blocks, and Queries takes queries to them.
func (s *Server) Chains() Chains        { return s.chains }
func (s *Server) Queries() *punt.Server { return s.queries }

// Guests says who is served.
func (s *Server) Guests() *guests.Rules { return s.guests }

// Names reads the databases. It is nil without databases, and before Open.
func (s *Server) Names() *ovndb.Reader { return s.source }

// logLoops warns once of each guest of the snapshot that a forward of the server asks.
func (s *Server) logLoops(snapshot *ovn.Snapshot) {
	for _, warning := range s.chains.Loops(snapshot) {
		if s.loggedLoops[warning] {
			continue
		}
		if s.loggedLoops == nil {
			s.loggedLoops = map[string]bool{}
		}
		s.loggedLoops[warning] = true
		log.Warning(warning)
	}
}

// synced reports whether every database of the server is in sync.
func (s *Server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// BindingProblem returns a problem with the bindings of this chassis, empty without one.
func (s *Server) BindingProblem() string {
	if err := s.Conflict(); err != nil {
		return err.Error()
	}
	if reason := s.agentBoundNone.Load(); reason != nil {
		return *reason
	}
	if s.source == nil {
		return ""
	}
	switch snapshot := s.source.Snapshot(); {
	case snapshot.HasRetained():
		return "the bindings of this chassis are gone, or have a former name of it; its guests are served for the grace"
	case s.Options.Placement == placement.OVN && !snapshot.HasChassis() && s.synced():
		return fmt.Sprintf("Southbound has no chassis %q, so no guest is known", s.source.Chassis())
	}
	return ""
}

// whyUnsettled says why the guests of a chassis are not known, empty if the databases are still
// being read.
func (s *Server) whyUnsettled() string {
	if !s.synced() {
		return ""
	}
	return s.BindingProblem()
}

// Snapshot returns what the databases say, nil without databases.
func (s *Server) Snapshot() *ovn.Snapshot {
	if s.source == nil {
		return nil
	}
	return s.source.Snapshot()
}

// Book returns the guests by a view of the local database.
func (s *Server) Book(view *ports.View) guests.Book { return guests.At(s.guests, s.Snapshot(), view) }

// settled reports whether every guest of the databases is known.
func (s *Server) settled() bool { return s.source == nil || s.source.Snapshot().Settled }

// Open opens the databases of s, which other servers may share.
func (s *Server) Open() error {
	if !s.HasDatabase {
		return nil
	}
	source, err := ovndb.Open(s.Database, s.Options.Name)
	if err != nil {
		return fmt.Errorf("ofpunt %s: %w", s.Options.Name, err)
	}
	s.source = source
	source.Request(s.Requested())
	return nil
}

// Requested returns what the bridge needs of its databases: for the addresses of its guests and the
// labels of its blocks.
func (s *Server) Requested() ovndb.Requests {
	r := s.Requests
	r.DNSServers, r.Gateways = s.Options.DHCP, s.Options.Gateways
	return r
}

// Close closes what Open has opened. A query that has outlived the drain still reads the
// last snapshot.
func (s *Server) Close() {
	if s.source != nil {
		s.source.Close()
	}
}

// Conflict returns why the databases can't be read for the chassis of s, nil if they can.
func (s *Server) Conflict() error {
	if s.source == nil {
		return nil
	}
	return s.source.Conflict()
}

// drain waits until no query is in the chains, or ctx ends.
func (s *Server) drain(ctx context.Context) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.queries.InFlight() > 0 {
		select {
		case <-ctx.Done():
			log.Warningf("Bridge %s: %d queries were still in their chain after %s", s.Options.Name, s.queries.InFlight(), punt.DrainTimeout)
			return
		case <-t.C:
		}
	}
}
