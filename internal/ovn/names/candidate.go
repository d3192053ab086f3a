// SPDX-License-Identifier: Apache-2.0

package names

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Candidate is one source's value for a name. Candidates are for operators only.
type Candidate struct {
	Provenance
	// Row, Column and Key are the record's place in Northbound. Row is zero for ports. Key is empty with
	// readable Records, and for a derived candidate.
	Row         [16]byte
	Column, Key string
	Addresses   []netip.Addr
	Targets     []string
	// Records are of other types, such as "MX 10 mail.example.".
	Records          []string
	Used, Unreadable bool
	Derived          bool
}

const (
	columnRecords = "records"
	columnIDs     = "external_ids"
)

func (d *Directory) Sources(name, domain string) (all []Candidate) {
	won := false
	add := func(k Candidate, e *entry) {
		k.Addresses, k.Targets = e.addresses(), e.targets()
		k.Unreadable = !e.usable()
		k.Used = !won && !k.Unreadable
		won = won || k.Used
		all = append(all, k)
	}
	for _, t := range d.tables.all {
		for _, e := range t.appendRecords(nil, name) {
			add(Candidate{Provenance: t.provenance(), Row: t.row, Column: columnRecords, Key: cmp.Or(e.alias(), strings.TrimSuffix(name, "."))}, &e)
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
	all = append(all, d.unreadableRecords(name)...)
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

func (d *Directory) recordsOf(name string) (all []Candidate) {
	for _, t := range d.rrs.all {
		if r := t.of(name); r != nil {
			all = append(all, Candidate{Provenance: t.provenance(), Row: t.row, Column: columnIDs, Records: texts(r)})
		}
	}
	return all
}

func (d *Directory) unreadableRecords(name string) (all []Candidate) {
	for _, t := range d.rrs.all {
		for _, key := range t.keys[name] {
			if len(t.sets[key].rrs) == 0 {
				all = append(all, Candidate{Provenance: t.provenance(), Row: t.row, Column: columnIDs, Key: key, Unreadable: true})
			}
		}
	}
	return all
}

func (d *Directory) isAlias(name string) bool {
	for _, t := range d.rrs.all {
		if r := t.of(name); r != nil {
			return r.alias != ""
		}
	}
	return false
}

func texts(r *RRs) (all []string) {
	for _, rr := range r.Of(dns.TypeANY) {
		h := rr.Header()
		all = append(all, dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
	}
	return all
}

// Names returns the canonical names with records, sorted. A hostname without a domain appears bare, and with
// a non-empty domain.
func (d *Directory) Names(domain string) []string {
	all := map[string]struct{}{}
	for name := range d.EachName(domain) {
		all[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// EachName yields Names in no order, once for each source, and whether the source has a readable value.
func (d *Directory) EachName(domain string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		_ = d.yieldTables(yield) && d.yieldRecords(yield) && d.yieldHosts(domain, yield)
	}
}

func (d *Directory) yieldTables(yield func(string, bool) bool) bool {
	for _, t := range d.tables.all {
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

func (d *Directory) yieldRecords(yield func(string, bool) bool) bool {
	for _, t := range d.rrs.all {
		for name := range t.keys {
			if !yield(name, t.of(name) != nil) {
				return false
			}
		}
	}
	return true
}

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

func (h *Hostnames) find(name, domain string) *entry {
	if e := h.names.find(name); e != nil || domain == "" {
		return e
	}
	if bare, ok := strings.CutSuffix(name, domain); ok {
		return h.bare.find(bare)
	}
	return nil
}

// Join appends a domain to a hostname, both canonical. ok is false for a too long result.
func Join(hostname, domain string) (string, bool) { return join(hostname, domain) }
