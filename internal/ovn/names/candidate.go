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

// Candidate is what one source of a network has for a name. It is for operators; Lookup answers guests.
type Candidate struct {
	Provenance
	// Row is the UUID of the Northbound DNS row, zero for ports. Column and Key are where the row has the record,
	// empty for a derived candidate. With a readable value of Records, Key is empty, as there may be several.
	Row         [16]byte
	Column, Key string
	// Addresses have IPv4 first. Targets are the targets of a reverse name.
	Addresses []netip.Addr
	Targets   []string
	// Records are the records of other types in a Northbound row, such as "MX 10 mail.example.".
	Records []string
	// Used is set for what Lookup answers, Unreadable for a record without a readable value.
	Used, Unreadable bool
	// Derived is set if no record has the name: a wildcard covers it, or it is the reverse name of an address.
	Derived bool
}

// The columns of table DNS with records (ovn-nb(5)).
const (
	columnRecords = "records"
	columnIDs     = "external_ids"
)

// Sources returns all candidates for a canonical name in the order of precedence.
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
	for _, t := range d.rrs {
		if r := t.of(name); r != nil {
			all = append(all, Candidate{Provenance: t.provenance(), Row: t.row, Column: columnIDs, Records: texts(r)})
		}
	}
	return all
}

// unreadableRecords returns a candidate for each record of another type whose value is unreadable.
func (d *Directory) unreadableRecords(name string) (all []Candidate) {
	for _, t := range d.rrs {
		for _, key := range t.keys[name] {
			if len(t.sets[key].rrs) == 0 {
				all = append(all, Candidate{Provenance: t.provenance(), Row: t.row, Column: columnIDs, Key: key, Unreadable: true})
			}
		}
	}
	return all
}

func (d *Directory) isAlias(name string) bool {
	for _, t := range d.rrs {
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

// Names returns the canonical names that have records, sorted. Hostnames without a domain in OVN are included
// twice: bare, and with domain unless it is empty.
func (d *Directory) Names(domain string) []string {
	all := map[string]struct{}{}
	for name := range d.EachName(domain) {
		all[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// EachName yields the names of Names in no order, once for each source. The value reports whether the source
// has a readable value.
func (d *Directory) EachName(domain string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		_ = d.yieldTables(yield) && d.yieldRecords(yield) && d.yieldHosts(domain, yield)
	}
}

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

func (d *Directory) yieldRecords(yield func(string, bool) bool) bool {
	for _, t := range d.rrs {
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

// Join appends a domain to a hostname, both canonical. ok is false if the result is too long.
func Join(hostname, domain string) (string, bool) { return join(hostname, domain) }
