// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// northboundDNSColumns are those that are read of table DNS in Northbound. Where Southbound is
// read, addresses come from there; the keys of external_ids that have other records are in
// Northbound only.
func (w *world) northboundDNSColumns() []rows.Column[dnsRow] {
	var all []rows.Column[dnsRow]
	if w.sb == nil {
		all = dnsColumns(northboundName)
	}
	return append(all, rows.Custom("external_ids", func(id ovsdb.UUID, r *dnsRow, row *ovsdb.Row, col int) bool {
		records := recordsOf(row, col)
		if !records.Diff && r.rrs.Has(records) {
			return false
		}
		had := r.rrs
		r.rrs = had.Update(records, r.reports(northboundName, tableDNS, id, "external_ids", records.Diff)).WithOwned(r.owned == "true").WithRow(id)
		return r.rrs != had
	}), ownedColumn())
}

// rrRows returns the DNS rows of a switch that have other records than addresses, in the order
// of their UUIDs.
func (n *northbound) rrRows(id origin.Network) (all []*dnsRow) {
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

// addRRs adds the other records than addresses to a network.
func (w *world) addRRs(n *Network) {
	if w.nb == nil {
		return
	}
	bad := n.replace("dns-cname").add
	all := w.nb.rrRows(n.ID)
	if len(all) == 0 {
		return
	}
	tables := make([]*names.RRTable, len(all))
	for i, r := range all {
		tables[i] = r.rrs
	}
	n.Directory = n.Directory.WithRRs(tables)
	for _, r := range all {
		w.reportAliases(n, r, bad)
	}
}

// reportAliases reports the CNAME records of a row that do not count in a network, since the
// names have other data there.
func (w *world) reportAliases(n *Network, r *dnsRow, bad func(text string)) {
	for name := range r.rrs.Aliases() {
		a, _ := n.Lookup(name, n.Domain)
		if name == n.Domain || len(a.V4)+len(a.V6)+len(a.PTR) > 0 {
			bad(fmt.Sprintf("%s: %s %s: the CNAME record of %.80q skipped on switch %.80q: the name has other records there (RFC 2181, section 10.1)",
				northboundName, tableDNS, r.id, name, n.Name))
		}
	}
}
