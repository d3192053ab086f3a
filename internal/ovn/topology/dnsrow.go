// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type DNSRow struct {
	problem.Set
	// ID is the UUID of the Northbound row, which operators edit.
	ID ovsdb.UUID
	// Table is nil in Northbound if Southbound is read.
	Table *names.Table
	owned string // from OVN 24.03 on
}

// ovn-northd makes a southboundDNS row from one Northbound row (northd/northd.c, sync_dns_entries), without
// external_ids. So Northbound has the records other than addresses.
type southboundDNS struct {
	DNSRow
	datapaths []ovsdb.UUID
	// origin is external_ids:dns_id, the UUID of the Northbound row. From OVN 24.09.2 on both rows have the
	// same UUID.
	origin string
}

func (r *southboundDNS) northboundID(id ovsdb.UUID) ovsdb.UUID {
	if of, err := ovsdb.ParseUUID(r.origin); err == nil {
		return of
	}
	return id
}

type NorthboundDNS struct {
	DNSRow
	RRs *names.RRTable
}

func southboundDNSColumns() []rows.Column[southboundDNS] {
	row := func(r *southboundDNS) *DNSRow { return &r.DNSRow }
	return []rows.Column[southboundDNS]{
		// It stands before the records, which are reported with the UUID of the Northbound row.
		rows.Key("external_ids", "dns_id", func(r *southboundDNS) *string { return &r.origin }).Then(func(id ovsdb.UUID, r *southboundDNS) {
			if r.Table != nil {
				r.Table = r.Table.WithRow(r.northboundID(id))
			}
		}),
		addressColumn(row, func(r *southboundDNS, id ovsdb.UUID) ovsdb.UUID { return r.northboundID(id) }),
		ownedColumn(row, nil),
		rows.UUIDs("datapaths", func(r *southboundDNS) *[]ovsdb.UUID { return &r.datapaths }),
	}
}

// withAddresses is set if Southbound is not read.
func northboundDNSColumns(withAddresses bool) (all []rows.Column[NorthboundDNS]) {
	row := func(r *NorthboundDNS) *DNSRow { return &r.DNSRow }
	if withAddresses {
		all = append(all, addressColumn(row, func(_ *NorthboundDNS, id ovsdb.UUID) ovsdb.UUID { return id }))
	}
	return append(all, rows.Custom("external_ids", func(id ovsdb.UUID, r *NorthboundDNS, row *ovsdb.Row, col int) bool {
		records := recordsOf(row, col)
		if !records.Diff && r.RRs.Has(records) {
			return false
		}
		had := r.RRs
		r.RRs = had.Update(records, r.Reports(NorthboundName, TableDNS, id, columnIDs, records.Diff)).WithOwned(r.owned == "true").WithRow(id)
		return r.RRs != had
	}), ownedColumn(row, func(r *NorthboundDNS, owned bool) { r.RRs = r.RRs.WithOwned(owned) }))
}

func addressColumn[R any](of func(*R) *DNSRow, northboundID func(*R, ovsdb.UUID) ovsdb.UUID) rows.Column[R] {
	return rows.Custom("records", func(id ovsdb.UUID, record *R, row *ovsdb.Row, col int) bool {
		r := of(record)
		id = northboundID(record, id)
		fresh := r.Table == nil
		if fresh {
			r.Table = names.NewTable(id)
		}
		records := recordsOf(row, col)
		if !records.Diff && r.Table.Has(records) {
			return fresh
		}
		r.Table = r.Table.Update(records, r.Reports(NorthboundName, TableDNS, id, columnRecords, records.Diff))
		return true
	})
}

// ownedColumn must follow the columns with records, as it sets owned in their tables.
func ownedColumn[R any](of func(*R) *DNSRow, also func(r *R, owned bool)) rows.Column[R] {
	return rows.Key("options", "ovn-owned", func(r *R) *string { return &of(r).owned }).Optional().Then(func(_ ovsdb.UUID, record *R) {
		r := of(record)
		if r.Table != nil {
			r.Table = r.Table.WithOwned(r.owned == "true")
		}
		if also != nil {
			also(record, r.owned == "true")
		}
	})
}

func recordsOf(row *ovsdb.Row, col int) names.Records {
	return names.Records{Count: row.Len(col), Diff: row.Diff(col), Pairs: func(yield func(k, v []byte) bool) {
		for i := range row.Len(col) {
			if !yield(row.PairAt(col, i)) {
				return
			}
		}
	}}
}

// DNSCount counts a row in the one database whose Table is read.
type DNSCount struct{ Rows, Records int }

func (c *DNSCount) add(n int, table *names.Table, rrs *names.RRTable) {
	c.Records += n * rrs.Len()
	if table != nil {
		c.Rows += n
		c.Records += n * table.Len()
	}
}

func (s *Southbound) dnsChanged(id ovsdb.UUID, old, next *southboundDNS) {
	if old != nil {
		s.DNSCount.add(-1, old.Table, nil)
		for _, dp := range old.datapaths {
			s.DNSOf.Remove(dp, id)
			s.markDatapath(dp, PartNames)
		}
	}
	if next != nil {
		s.DNSCount.add(1, next.Table, nil)
		next.ID = next.northboundID(id)
		for _, dp := range next.datapaths {
			s.DNSOf.Add(dp, id, next)
			s.markDatapath(dp, PartNames)
		}
	}
}

func (n *Northbound) dnsChanged(id ovsdb.UUID, old, next *NorthboundDNS) {
	if old != nil {
		n.DNSCount.add(-1, old.Table, old.RRs)
	}
	if next != nil {
		n.DNSCount.add(1, next.Table, next.RRs)
		next.ID = id
	}
	for s := range n.dnsOf[id] {
		n.Changes.network(origin.Network(s), PartNames)
	}
}

// RRRows returns the DNS rows of a switch with RRs, in UUID order.
func (n *Northbound) RRRows(id origin.Network) (all []*NorthboundDNS) {
	s := n.Switches.Get(ovsdb.UUID(id))
	if s == nil {
		return nil
	}
	for _, row := range s.DNSRows { // sorted
		if r := n.DNS.Get(row); r != nil && r.RRs != nil {
			all = append(all, r)
		}
	}
	return all
}
