// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// dnsRow is what both databases have of a row of table DNS.
type dnsRow struct {
	problems
	id ovsdb.UUID
	// table has the addresses. It is nil in Northbound where Southbound is read too.
	table *names.Table
	owned string // options:ovn-owned as it stands, from OVN 24.03 on
}

// southboundDNS is a row of table DNS in Southbound. ovn-northd makes it of a Northbound row, see
// Source.DNSDatabase.
type southboundDNS struct {
	dnsRow
	datapaths []ovsdb.UUID
}

// northboundDNS is a row of table DNS in Northbound.
type northboundDNS struct {
	dnsRow
	// rrs has the records of other types than addresses, of external_ids; nil for none.
	rrs *names.RRTable
}

// DNSDatabase returns the name of the database with the DNS row that a name is from.
//

func southboundDNSColumns() []rows.Column[southboundDNS] {
	row := func(r *southboundDNS) *dnsRow { return &r.dnsRow }
	return []rows.Column[southboundDNS]{
		addressColumn(southboundName, row),
		ownedColumn(row, nil),
		rows.UUIDs("datapaths", func(r *southboundDNS) *[]ovsdb.UUID { return &r.datapaths }),
	}
}

// northboundDNSColumns are those of Northbound. withAddresses is set where Southbound is not read.
func northboundDNSColumns(withAddresses bool) (all []rows.Column[northboundDNS]) {
	row := func(r *northboundDNS) *dnsRow { return &r.dnsRow }
	if withAddresses {
		all = append(all, addressColumn(northboundName, row))
	}
	return append(all, rows.Custom("external_ids", func(id ovsdb.UUID, r *northboundDNS, row *ovsdb.Row, col int) bool {
		records := recordsOf(row, col)
		if !records.Diff && r.rrs.Has(records) {
			return false
		}
		had := r.rrs
		r.rrs = had.Update(records, r.reports(northboundName, tableDNS, id, "external_ids", records.Diff)).WithOwned(r.owned == "true").WithRow(id)
		return r.rrs != had
	}), ownedColumn(row, func(r *northboundDNS, owned bool) { r.rrs = r.rrs.WithOwned(owned) }))
}

// addressColumn is the column of names with their addresses.
func addressColumn[R any](database string, of func(*R) *dnsRow) rows.Column[R] {
	return rows.Custom("records", func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) bool {
		r := of(record)
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
	})
}

// ownedColumn is options:ovn-owned. It has to stand behind the columns with records, whose tables
// have it too; also sets it in further ones.
func ownedColumn[R any](of func(*R) *dnsRow, also func(r *R, owned bool)) rows.Column[R] {
	return rows.Key("options", "ovn-owned", func(r *R) *string { return &of(r).owned }).Optional().Then(func(_ ovsdb.UUID, record *R) {
		r := of(record)
		if r.table != nil {
			r.table = r.table.WithOwned(r.owned == "true")
		}
		if also != nil {
			also(record, r.owned == "true")
		}
	})
}

// recordsOf returns a column of records.
func recordsOf(row *ovsdb.Row, col int) names.Records {
	return names.Records{Count: row.Len(col), Diff: row.Diff(col), Pairs: func(yield func(k, v []byte) bool) {
		for i := range row.Len(col) {
			if !yield(row.PairAt(col, i)) {
				return
			}
		}
	}}
}

// dnsCount counts DNS rows and their records, for Stats. A row that both databases have counts once:
// only one of them reads its table.
type dnsCount struct{ rows, records int }

// add counts n rows more, or fewer, with the records of one.
func (c *dnsCount) add(n int, table *names.Table, rrs *names.RRTable) {
	c.records += n * rrs.Len()
	if table != nil {
		c.rows += n
		c.records += n * table.Len()
	}
}

func (s *southbound) dnsChanged(id ovsdb.UUID, old, next *southboundDNS) {
	if old != nil {
		s.dnsCount.add(-1, old.table, nil)
		for _, dp := range old.datapaths {
			s.dnsOf.Remove(dp, id)
			s.markDatapath(dp, partNames)
		}
	}
	if next != nil {
		s.dnsCount.add(1, next.table, nil)
		next.id = id
		for _, dp := range next.datapaths {
			s.dnsOf.Add(dp, id, next)
			s.markDatapath(dp, partNames)
		}
	}
}

func (n *northbound) dnsChanged(id ovsdb.UUID, old, next *northboundDNS) {
	if old != nil {
		n.dnsCount.add(-1, old.table, old.rrs)
	}
	if next != nil {
		n.dnsCount.add(1, next.table, next.rrs)
		next.id = id
	}
	for s := range n.dnsOf[id] {
		n.changes.network(origin.Network(s), partNames)
	}
}

// rrRows returns the DNS rows of a switch that have records of other types than addresses, in the
// order of their UUIDs.
func (n *northbound) rrRows(id origin.Network) (all []*northboundDNS) {
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil {
		return nil
	}
	for _, row := range s.dnsRows { // sorted
		if r := n.dns.Get(row); r != nil && r.rrs != nil {
			all = append(all, r)
		}
	}
	return all
}
