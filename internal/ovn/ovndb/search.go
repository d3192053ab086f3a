// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"cmp"
	"context"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func (s *Source) ReadsNorthbound() bool { return s.nb != nil }

// IsCopied reports whether the DNS rows are northd's copies: Southbound is read and in sync.
func (s *Source) IsCopied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sb != nil && s.sbConn.status.Synced
}

// PersistentACLs returns the number of ACLs with persist-established, 0 if Southbound is not read.
func (s *Source) PersistentACLs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb == nil {
		return 0
	}
	return s.sb.PersistentACLs.Len()
}

// FindDNS returns the Northbound DNS rows with a canonical name. It scans the table over a connection of its
// own: the Source reads no rows without a switch, and no addresses beside Southbound.
func (s *Source) FindDNS(ctx context.Context, name string) ([]ovn.FoundRow, error) {
	search := topology.NewDNSSearch(name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &searcher{search: search, cancel: cancel}
	err := s.connectNorthbound(search.Tables.Requests(), r).Run(ctx)
	if !r.done {
		return nil, cmp.Or(r.err, err)
	}
	return search.Found(), nil
}

// FindFlow returns the Logical_Flow row behind a flow, over a connection of its own: the Source has only the
// rows of the DNS stage.
func (s *Source) FindFlow(ctx context.Context, k ovn.FlowKey) (f ovn.LogicalFlow, found bool, err error) {
	queries := s.flowQueries(k)
	if len(queries) == 0 {
		return f, false, nil
	}
	results, err := s.selectSouthbound(ctx, queries...)
	if err != nil {
		return f, false, err
	}
	return topology.ParseFlow(results, k.Cookie)
}

func (s *Source) flowQueries(k ovn.FlowKey) []ovsdb.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sb == nil {
		return nil
	}
	return s.sb.FlowQueries(k)
}

type searcher struct {
	search *topology.DNSSearch
	cancel context.CancelFunc
	done   bool
	err    error
}

func (r *searcher) Reset() { r.search.Tables.Reset() }

func (r *searcher) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	if !r.done {
		r.search.Tables.Stage(table, id, op, row)
	}
	return nil
}

func (r *searcher) Conditions(uint64) {}

func (r *searcher) Commit() {
	if !r.done {
		r.search.Tables.Apply()
		r.done = true
		r.cancel()
	}
}

func (r *searcher) Ended() { r.search.Tables.Discard() }

func (r *searcher) State(s ovsdb.State) { r.err = s.Err }
