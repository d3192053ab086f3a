// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// dnsRow is a row of table DNS, of either database.
type dnsRow struct {
	problems
	id ovsdb.UUID
	// table has the addresses, nil for a row of Northbound where Southbound is read.
	table *names.Table
	// rrs has the other records, of Northbound only; nil for none.
	rrs       *names.RRTable
	owned     string       // options:ovn-owned as it stands
	datapaths []ovsdb.UUID // Southbound only
}

// dnsColumns are those of addresses, which both databases have.
func dnsColumns(database string) []rows.Column[dnsRow] {
	return []rows.Column[dnsRow]{
		rows.Custom("records", func(id ovsdb.UUID, r *dnsRow, row *ovsdb.Row, col int) bool {
			fresh := r.table == nil
			if fresh {
				r.table = names.NewTable(id)
			}
			records := recordsOf(row, col)
			if !records.Diff && r.table.Has(records) {
				return fresh
			}
			r.table = r.table.Update(records, r.reports(database, tableDNS, id, "records", records.Diff))
			return true
		}),
	}
}

// ownedColumn is options:ovn-owned, from OVN 24.03 on. It stands behind the columns of records.
func ownedColumn() rows.Column[dnsRow] {
	return rows.Key("options", "ovn-owned", func(r *dnsRow) *string { return &r.owned }).Optional().Then(func(_ ovsdb.UUID, r *dnsRow) {
		if r.table != nil {
			r.table = r.table.WithOwned(r.owned == "true")
		}
		r.rrs = r.rrs.WithOwned(r.owned == "true")
	})
}

// recordsOf is the column of records of an update.
func recordsOf(row *ovsdb.Row, col int) names.Records {
	return names.Records{Count: row.Len(col), Diff: row.Diff(col), Pairs: func(yield func(k, v []byte) bool) {
		for i := range row.Len(col) {
			if !yield(row.PairAt(col, i)) {
				return
			}
		}
	}}
}

// countDNS keeps the number of DNS rows and of their records. A row that both databases have
// counts once.
func (w *world) countDNS(old, next *dnsRow) {
	count := func(r *dnsRow, n int) {
		if r == nil {
			return
		}
		w.dnsRecords += n * r.rrs.Len()
		if r.table != nil {
			w.dnsRows += n
			w.dnsRecords += n * r.table.Len()
		}
	}
	count(old, -1)
	count(next, 1)
}

func (s *southbound) dnsChanged(id ovsdb.UUID, old, next *dnsRow) {
	s.world.countDNS(old, next)
	if old != nil {
		for _, dp := range old.datapaths {
			s.dnsOf.Remove(dp, id)
			s.markDatapath(dp, false)
		}
	}
	if next != nil {
		next.id = id
		for _, dp := range next.datapaths {
			s.dnsOf.Add(dp, id, next)
			s.markDatapath(dp, false)
		}
	}
}

func (n *northbound) dnsChanged(id ovsdb.UUID, old, next *dnsRow) {
	n.world.countDNS(old, next)
	if next != nil {
		next.id = id
	}
	for s := range n.dnsOf[id] {
		n.world.markDirtySwitch(s, false)
	}
}
