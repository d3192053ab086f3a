// SPDX-License-Identifier: Apache-2.0

package names

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Candidate is what one source of a network says of a name. It is for operators: Lookup is what
// answers.
type Candidate struct {
	// Provenance says which table it is of, and whether OVN owns the row.
	Provenance
	// Row is the UUID of the DNS row, zero for ports.
	Row [16]byte
	// Addresses are those of the name, IPv4 first; Targets those of a reverse name.
	Addresses []netip.Addr
	Targets   []string
	// Records are those of other types, as "MX 10 mail.example.". They are of a row of
	// Northbound.
	Records []string
	// Used is set for what Lookup answers, Unreadable for a record without a value that can be
	// read.
	Used, Unreadable bool
	// Derived is set where no record has the name itself: a wildcard covers it, or it is the
	// reverse name of an address.
	Derived bool
}

// Sources returns all that a network knows of a canonical name, in the order in which it is looked
// at. The domain is that of Lookup.
func (d *Directory) Sources(name, domain string) (all []Candidate) {
	won := false
	add := func(k Candidate, e *entry) {
		k.Addresses, k.Targets = e.addresses(), e.targets()
		k.Unreadable = !e.usable()
		k.Used = !won && !k.Unreadable
		won = won || k.Used
		all = append(all, k)
	}
	for _, t := range d.tables {
		for _, e := range t.appendRecords(nil, name) {
			add(Candidate{Provenance: t.provenance(), Row: t.row}, &e)
		}
	}
	if e := d.hosts.find(name, domain); e != nil {
		add(Candidate{Provenance: fromPorts}, e)
	}
	records := d.recordsOf(name)
	if len(records) > 0 {
		records[0].Used = !won || !d.isAlias(name)
		won = won || records[0].Used
		all = append(all, records...)
	}
	if won {
		return all
	}
	if a, ok := d.Lookup(name, domain); ok {
		k := Candidate{Provenance: a.Provenance, Addresses: slices.Concat(a.V4, a.V6), Targets: a.PTR, Records: texts(a.RRs), Used: true, Derived: true}
		if len(k.Addresses)+len(k.Targets)+len(k.Records) > 0 {
			all = append(all, k)
		}
	}
	return all
}

// recordsOf returns the records of other types, by row. Those of the first row count.
func (d *Directory) recordsOf(name string) (all []Candidate) {
	for _, t := range d.rrs {
		if r := t.of(name); r != nil {
			all = append(all, Candidate{Provenance: t.provenance(), Row: t.row, Records: texts(r)})
		}
	}
	return all
}

// isAlias reports whether the records of other types that count for a name are a CNAME record.
func (d *Directory) isAlias(name string) bool {
	for _, t := range d.rrs {
		if r := t.of(name); r != nil {
			return r.alias != ""
		}
	}
	return false
}

// texts returns records in the presentation format, without what their headers lack.
func texts(r *RRs) (all []string) {
	for _, rr := range r.Of(dns.TypeANY) {
		h := rr.Header()
		all = append(all, dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
	}
	return all
}

// Names returns the canonical names that have records of their own, sorted. Those of ports without
// a domain in OVN are there with the domain too, if that is not empty.
func (d *Directory) Names(domain string) []string {
	all := map[string]struct{}{}
	for name := range d.EachName(domain) {
		all[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// EachName yields the names of Names in no order, once for each source, and reports with each whether the
// source has a value of it that can be read.
func (d *Directory) EachName(domain string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		_ = d.yieldTables(yield) && d.yieldRecords(yield) && d.yieldHosts(domain, yield)
	}
}

// yieldTables yields the names of DNS rows, and reports whether to go on.
func (d *Directory) yieldTables(yield func(string, bool) bool) bool {
	for _, t := range d.tables {
		for name := range t.records.all() {
			if !yield(name, true) {
				return false
			}
		}
		for name, all := range t.unused.all() {
			for i := range *all {
				if !yield(name, (*all)[i].usable()) {
					return false
				}
			}
		}
	}
	return true
}

// yieldRecords yields the names with records of other types, and reports whether to go on.
func (d *Directory) yieldRecords(yield func(string, bool) bool) bool {
	for _, t := range d.rrs {
		for name := range t.names.all() {
			if !yield(name, true) {
				return false
			}
		}
	}
	return true
}

// yieldHosts yields the names of ports, and reports whether to go on.
func (d *Directory) yieldHosts(domain string, yield func(string, bool) bool) bool {
	for name, e := range d.hosts.names.all() {
		if !yield(name, e.usable()) {
			return false
		}
	}
	if domain == "" {
		return true
	}
	for name, e := range d.hosts.bare.all() {
		if full, ok := join(name, domain); ok && !yield(full, e.usable()) {
			return false
		}
	}
	return true
}

// find returns what ports have of a canonical name, nil for nothing.
func (h *Hostnames) find(name, domain string) *entry {
	if e := h.names.find(name); e != nil || domain == "" {
		return e
	}
	if bare, ok := strings.CutSuffix(name, domain); ok {
		return h.bare.find(bare)
	}
	return nil
}

// Join returns a hostname with a domain, both canonical, and reports whether that is a name.
func Join(hostname, domain string) (string, bool) { return join(hostname, domain) }
