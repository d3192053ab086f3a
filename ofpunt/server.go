// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// server answers for one bridge: all server blocks of a Corefile that name it.
type server struct {
	options config.Bridge
	// chains are the compiled blocks. A trial has none.
	chains *chain.Server
	// database is what source reads, if hasOVNHosts is set. Then source is valid from open to close,
	// else it is nil.
	database    ovndb.Config
	hasOVNHosts bool
	source      *ovndb.Reader
	// requests are what the ovnhosts of all blocks will ask of source. A trial
	// makes them before the plugins do.
	requests []ovndb.Requests
	// labelRequests is what the labels that the blocks and the limits name need of source.
	labelRequests ovndb.Requests
	// guests says who is served.
	guests *guests.Rules
	// settledBefore is set in a trial if the server before had its databases settled.
	settledBefore bool
	// punts takes the queries to the chains.
	punts *punt.Server
	// noneBound is why placement neutron serves nobody, nil if it serves somebody.
	// unboundSeen is set if the last look found nobody; only the goroutine of the session
	// uses it.
	noneBound   atomic.Pointer[string]
	unboundSeen bool
	// loggedLoops has the warnings that logLoops has logged. Only the goroutine of the session uses it.
	loggedLoops map[string]bool
}

// newServer compiles the blocks of one bridge. Its error has all that is wrong with them.
func newServer(blocks []*chain.Block) (*server, error) {
	c, err := chain.Compile(blocks)
	if err != nil {
		return nil, err
	}
	s := &server{
		options: c.Options, chains: c, guests: guests.NewRules(c.Options.Config),
		database: c.Database, hasOVNHosts: c.HasDatabase, labelRequests: c.Requests,
	}
	s.punts = punt.NewServer(c.Config(s.guests, s.snapshot))
	return s, nil
}

// logLoops warns once of each guest of the snapshot that a forward of the server asks.
func (s *server) logLoops(snapshot *ovn.Snapshot) {
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
func (s *server) synced() bool { return s.source == nil || s.source.Status().Ready() }

// bindingProblem says what is wrong with the bindings of this chassis, empty if nothing is.
func (s *server) bindingProblem() string {
	if reason := s.noneBound.Load(); reason != nil {
		return *reason
	}
	if s.source == nil {
		return ""
	}
	switch snapshot := s.source.Snapshot(); {
	case snapshot.HasRetained():
		return "the bindings of this chassis are gone, or have a former name of it; its guests are served for the grace"
	case s.options.Placement == placement.OVN && !snapshot.HasChassis() && s.synced():
		return "the Southbound database does not know this chassis"
	}
	return ""
}

// whyUnsettled says why the guests of a chassis are not known, empty if the databases are still
// being read.
func (s *server) whyUnsettled() string {
	if !s.synced() {
		return ""
	}
	return s.bindingProblem()
}

// snapshot returns what the databases say, nil without databases.
func (s *server) snapshot() *ovn.Snapshot {
	if s.source == nil {
		return nil
	}
	return s.source.Snapshot()
}

// book returns the guests now.
func (s *server) book(view *ports.View) guests.Book { return guests.At(s.guests, s.snapshot(), view) }

// settled reports whether every guest of the databases is known.
func (s *server) settled() bool { return s.source == nil || s.source.Snapshot().Settled }

// open acquires the databases of s, which others may share.
func (s *server) open() error {
	if !s.hasOVNHosts {
		return nil
	}
	source, err := ovndb.Open(s.database, s.options.Name)
	if err != nil {
		return fmt.Errorf("ofpunt %s: %w", s.options.Name, err)
	}
	s.source = source
	source.Request(s.ownRequests())
	return nil
}

// ownRequests is what the bridge needs of its databases: for the addresses of its guests and the
// labels of its blocks.
func (s *server) ownRequests() ovndb.Requests {
	r := s.labelRequests
	r.DNSServers, r.Gateways = s.options.DHCP, s.options.Gateways
	return r
}

// close releases what open has acquired. A query that has outlived the drain still reads the
// last snapshot.
func (s *server) close() {
	if s.source != nil {
		s.source.Close()
	}
}

// conflict returns why the databases can't be read for the chassis of s, nil if they can.
func (s *server) conflict() error {
	if s.source == nil {
		return nil
	}
	return s.source.Conflict()
}

// drain waits until no query is in the chains, or ctx ends.
func (s *server) drain(ctx context.Context) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.punts.InFlight() > 0 {
		select {
		case <-ctx.Done():
			log.Warningf("Bridge %s: %d queries were still in their chain after %s", s.options.Name, s.punts.InFlight(), punt.DrainTimeout)
			return
		case <-t.C:
		}
	}
}
