// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// Chains are a bridge's compiled server blocks.
type Chains interface {
	// Context returns the context of punted queries.
	Context() context.Context
	// Resumes reports whether unanswered queries continue to their destination.
	Resumes() bool
	// Loops warns of each guest of the snapshot, which may be nil, that a chain queries.
	Loops(*ovn.Snapshot) []string
	Labels(*origin.Origin) []api.Label
	// EgressPolicies returns the egress policies, each with those of the guests that it applies to.
	EgressPolicies(guests []origin.Origin) (corefile, northbound []api.EgressPolicy)
	// ReportUpstreams adds dead upstreams to a status.
	ReportUpstreams(to *api.Status)
}

// Config configures a [Server].
type Config struct {
	Options config.Bridge
	// Database is valid if HasDatabase. Labels and limits need Requests.
	HasDatabase bool
	Database    ovndb.Config
	Requests    ovndb.Requests
	// Egress is nil without egress policies.
	Egress   guests.EgressPolicies
	Openings opening.Settings
	// ACLBit is the bit of pkt_mark in ACLs for egress, 0 without *egress*.
	ACLBit uint8
	// More are all ovnhosts' requests, only in a trial: it asks before the plugins do.
	More []ovndb.Requests
}

// ExpectedBit returns the bit that ACLs for egress have, the default one without *egress*.
func (c *Config) ExpectedBit() uint8 { return cmp.Or(c.ACLBit, opening.DefaultBit) }

// Server is one Corefile's part for one bridge.
type Server struct {
	Config
	// A trial has neither.
	chains  Chains
	queries *punt.Server
	// source is nil before Open, and without databases.
	source *ovndb.Reader
	guests *guests.Rules
	// wasSettled is set in a trial if the current server's databases were settled.
	wasSettled bool
	// agentBoundNone is why placement neutron serves no guest, else nil. unboundSeen is set if the last look found
	// none; only the session's goroutine uses it and loggedLoops.
	agentBoundNone atomic.Pointer[string]
	unboundSeen    bool
	loggedLoops    map[string]bool
}

// NewServer returns a server without chains.
func NewServer(c Config) *Server {
	rules := guests.NewRules(c.Options.Config)
	rules.Egress = c.Egress
	return &Server{Config: c, guests: rules}
}

// ServerOf returns a server that reads names, for tests.
func ServerOf(o config.Bridge, names *ovndb.Reader) *Server {
	s := NewServer(Config{Options: o, HasDatabase: true})
	s.source = names
	return s
}

// Answer sets the chains. Call it once, before Registry.Serve.
func (s *Server) Answer(chains Chains, queries *punt.Server) { s.chains, s.queries = chains, queries }

// Chains returns the compiled blocks, Queries the server of their queries.
func (s *Server) Chains() Chains        { return s.chains }
func (s *Server) Queries() *punt.Server { return s.queries }

// Guests returns the rules of who is served.
func (s *Server) Guests() *guests.Rules { return s.guests }

// Names is nil before Open, and without databases.
func (s *Server) Names() *ovndb.Reader { return s.source }

// logLoops warns once of each guest that a forward queries.
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

func (s *Server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// BindingProblem returns a problem with this chassis' bindings, else empty.
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

// whyUnsettled is empty while the databases are being read.
func (s *Server) whyUnsettled() string {
	if !s.synced() {
		return ""
	}
	return s.BindingProblem()
}

// Snapshot is nil without databases.
func (s *Server) Snapshot() *ovn.Snapshot {
	if s.source == nil {
		return nil
	}
	return s.source.Snapshot()
}

// Book returns the guests by a view.
func (s *Server) Book(view *ports.View) guests.Book { return guests.At(s.guests, s.Snapshot(), view) }

// settled reports whether all guests are known.
func (s *Server) settled() bool { return s.source == nil || s.source.Snapshot().Settled }

// Open opens the databases, which servers may share.
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

// Requested returns the bridge's requests to its databases.
func (s *Server) Requested() ovndb.Requests {
	r := s.Requests
	r.DNSServers, r.Gateways = s.Options.DHCP, s.Options.Gateways
	return r
}

// Close closes the databases. A query that outlives the drain still reads the last snapshot.
func (s *Server) Close() {
	if s.source != nil {
		s.source.Close()
	}
}

// Conflict returns why the databases can't be read for the chassis of s, or nil.
func (s *Server) Conflict() error {
	if s.source == nil {
		return nil
	}
	return s.source.Conflict()
}

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
