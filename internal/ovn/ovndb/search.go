// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"cmp"
	"context"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// ReadsNorthbound reports whether the Source reads Northbound.
func (s *Source) ReadsNorthbound() bool { return s.nb != nil }

// IsCopied reports whether ovn-northd copies the DNS rows that the Source reads: Southbound is read, and in sync.
func (s *Source) IsCopied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sb != nil && s.sbConn.status.Synced
}

// FindDNS returns the rows of Northbound's table DNS that have a canonical name. It reads the table over a
// connection of its own, as the Source reads neither rows without a switch nor, beside Southbound, any addresses.
// That costs the server a scan of the table.
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

// FindFlow returns the row of Logical_Flow of which ovn-controller has made a flow. found is false if there is no such
// row, or Southbound is not read. It reads over a connection of its own, as the Source reads no other rows of the table
// than the ones of the DNS stage.
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

// searcher is the ovsdb.Receiver of a DNSSearch. It ends the client once it has all rows.
type searcher struct {
	search *topology.DNSSearch
	cancel context.CancelFunc
	done   bool
	err    error // of the last connection
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
