// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"maps"
	"sync"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Totals are the counters of all Sources with the same endpoints since the process started.
type Totals struct {
	BadValues uint64
	Databases map[string]ovsdb.Counts
}

var totals totalsByEndpoints

// Ended Sources stay in the sums, so the sums never fall.
type totalsByEndpoints struct {
	mu      sync.Mutex // locked before Source.mu
	running map[*Source]struct{}
	ended   map[string]Totals
}

func AllTotals() map[string]Totals { return totals.sum() }

func (t *totalsByEndpoints) begin(s *Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running, t.ended = map[*Source]struct{}{}, map[string]Totals{}
	}
	t.running[s] = struct{}{}
}

func (t *totalsByEndpoints) end(s *Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, s)
	addTotals(t.ended, s)
}

func (t *totalsByEndpoints) sum() map[string]Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]Totals, len(t.ended))
	for endpoints, of := range t.ended {
		all[endpoints] = Totals{of.BadValues, maps.Clone(of.Databases)}
	}
	for s := range t.running {
		addTotals(all, s)
	}
	return all
}

func addTotals(all map[string]Totals, s *Source) {
	endpoints := s.config.Endpoints()
	of := all[endpoints]
	if of.Databases == nil {
		of.Databases = map[string]ovsdb.Counts{}
	}
	of.BadValues += s.Snapshot().Stats.BadValues
	for _, d := range s.Status() {
		of.Databases[d.Database] = of.Databases[d.Database].Plus(d.Counts)
	}
	all[endpoints] = of
}
