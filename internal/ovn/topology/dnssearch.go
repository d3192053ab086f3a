// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// DNSSearch finds the Northbound DNS rows with a name. It reads whole tables: no condition of OVSDB selects
// rows by key, or rows without a switch.
type DNSSearch struct {
	Tables   rows.Tables
	dns      *rows.Table[searchedDNS]
	switches *rows.Table[searchedSwitch]
}

type searchedDNS struct{ records, ids bool }

type searchedSwitch struct {
	name    string
	dnsRows []ovsdb.UUID
}

func NewDNSSearch(name string) *DNSSearch {
	hasKey := func(nameOf func(key string) string) func(row *ovsdb.Row, col int) bool {
		return func(row *ovsdb.Row, col int) bool {
			for i := range row.Len(col) {
				if key, _ := row.PairAt(col, i); nameOf(string(key)) == name {
					return true
				}
			}
			return false
		}
	}
	ofRecord := hasKey(func(key string) string { of, _ := names.Canonical(key); return of })
	ofID := hasKey(func(key string) string { _, of, _ := names.ParseRRKey(key); return of })
	s := &DNSSearch{
		dns: rows.NewTable(TableDNS, nil, func(ovsdb.UUID, *searchedDNS, *searchedDNS) {},
			rows.Custom(columnRecords, func(_ ovsdb.UUID, r *searchedDNS, row *ovsdb.Row, col int) bool {
				r.records = ofRecord(row, col)
				return true
			}),
			rows.Custom(columnIDs, func(_ ovsdb.UUID, r *searchedDNS, row *ovsdb.Row, col int) bool {
				r.ids = ofID(row, col)
				return true
			})),
		switches: rows.NewTable(TableSwitch, nil, func(ovsdb.UUID, *searchedSwitch, *searchedSwitch) {},
			rows.String("name", func(s *searchedSwitch) *string { return &s.name }),
			rows.UUIDs("dns_records", func(s *searchedSwitch) *[]ovsdb.UUID { return &s.dnsRows })),
	}
	s.Tables = rows.Tables{s.dns, s.switches}
	return s
}

func (s *DNSSearch) Found() (all []ovn.FoundRow) {
	for id, r := range s.dns.All() {
		if !r.records && !r.ids {
			continue
		}
		f := ovn.FoundRow{Row: id, Addresses: r.records}
		for of, sw := range s.switches.All() {
			if ovsdb.HasUUID(sw.dnsRows, id) {
				f.Switches = append(f.Switches, ovn.SwitchRef{Name: sw.name, ID: origin.Network(of)})
			}
		}
		slices.SortFunc(f.Switches, ovn.CompareSwitchRefs)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b ovn.FoundRow) int { return a.Row.Compare(b.Row) })
	return all
}
