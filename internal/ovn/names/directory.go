// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Directory has all names of one network. It is immutable.
type Directory struct {
	tables rows[*Table]
	hosts  *Hostnames
	rrs    rows[*RRTable]
	wild   bool
}

func NewDirectory(tables []*Table, hosts *Hostnames) Directory {
	return new(Directory).With(tables, nil, hosts)
}

// With returns the next version. tables and rrs are in UUID order. The time is proportional to the changed
// rows, apart from a comparison of all pointers.
func (d *Directory) With(tables []*Table, rrs []*RRTable, hosts *Hostnames) Directory {
	next := Directory{tables: d.tables.with(tables, noTable), hosts: hosts, rrs: d.rrs.with(rrs, noRRTable)}
	next.wild = next.tables.hasWildcards() || next.rrs.hasWildcards()
	return next
}

// Lookup answers for a canonical name. domain, canonical or "", completes hostnames without a domain.
//
// The first source of a name answers alone: DNS rows in UUID order, then all ports with the hostname. A
// record without a readable value is ignored, but makes the name exist in a row that OVN owns.
//
// A reverse name without a record has the names that resolve to the address, from the first source. Longer
// names hide single labels. Wildcards do not count.
//
// RRTables add records. A CNAME record counts only alone.
//
// A name that does not exist is answered from the wildcard directly below its closest encloser (RFC 4592,
// section 3.3). All names of the network form one tree.
func (d *Directory) Lookup(name, domain string) (Answer, bool) {
	if len(d.rrs.all) > 0 {
		return d.lookupWithRRs(name, domain)
	}
	if a, ok := d.forward(name, domain); ok {
		return a, true
	}
	if addr, ok := parseReverse(name); ok {
		if a, ok := d.derivePTR(addr, domain); ok {
			return a, true
		}
	}
	if a, ok := d.synthesize(name, domain); ok {
		return a, true
	}
	if d.isOwned(name) {
		return Answer{Provenance: Provenance{sourceDNS, true}}, true
	}
	return Answer{}, false
}

// Empty reports whether a name that Lookup does not find is an empty non-terminal, whose denial would deny
// the names below it (RFC 8020, section 2).
func (d *Directory) Empty(name, domain string) bool {
	if d.exists(name, domain) {
		return true
	}
	if p, ok := parseReversePrefix(name); ok && !p.IsSingleIP() && d.derivesWithin(p) {
		return true
	}
	if name == "arpa." {
		return d.derivesWithin(allIPv4) || d.derivesWithin(allIPv6)
	}
	return d.hasWildcard(name, domain)
}

func (d *Directory) HasMachine(a netip.Addr) bool {
	_, ok := d.hosts.machines[a]
	return ok
}

// Match is the records of a name, without derived records and completed hostnames.
type Match struct {
	entry *entry
	from  Provenance
	rrs   *RRs
}

func (m *Match) Answer() Answer {
	a := m.entry.answer(m.from)
	a.RRs = m.rrs
	return a
}

func (d *Directory) Exact(name string) (Match, bool) {
	m, ok := d.exact(name)
	if ok && len(d.rrs.all) > 0 {
		a, _ := d.withRRsOf(Answer{Provenance: m.from}, true, name)
		m.rrs, m.from = a.RRs, a.Provenance
	}
	return m, ok
}

func (d *Directory) exact(name string) (Match, bool) {
	for _, t := range d.tables.of(kindExact, name) {
		if e := t.records.find(name); e != nil {
			return Match{entry: e, from: t.provenance()}, true
		}
	}
	if e := d.hosts.names.find(name); e != nil {
		return Match{entry: e, from: fromPorts}, true
	}
	return Match{}, false
}

func (d *Directory) forward(name, domain string) (Answer, bool) {
	if m, ok := d.exact(name); ok {
		return m.Answer(), true
	}
	if bare, ok := strings.CutSuffix(name, domain); ok && domain != "" {
		if e := d.hosts.bare.find(bare); e != nil {
			return e.answer(fromPorts), true
		}
	}
	return Answer{}, false
}

func (d *Directory) derivePTR(addr netip.Addr, domain string) (Answer, bool) {
	for t := range d.tables.withAddress(addr) {
		if names := d.confirm(t.records.namesOf(addr), addr, domain); len(names) > 0 {
			return Answer{PTR: names, Provenance: t.provenance()}, true
		}
	}
	names := d.confirm(d.hosts.names.namesOf(addr), addr, domain)
	if len(names) == 0 {
		names = d.confirm(qualify(d.hosts.bare.namesOf(addr), domain), addr, domain)
	}
	return Answer{PTR: names, Provenance: fromPorts}, len(names) > 0
}

func (d *Directory) derivesWithin(p netip.Prefix) bool {
	return d.tables.derivesWithin(p) || d.hosts.names.hasWithin(p) || d.hosts.bare.hasWithin(p)
}

func (d *Directory) exists(name, domain string) bool {
	for _, t := range d.tables.of(kindNode, name) {
		if t.records.exists(name) {
			return true
		}
	}
	for _, t := range d.rrs.of(kindNode, name) {
		if t.names.exists(name) {
			return true
		}
	}
	return d.hosts.exists(name, domain)
}

// confirm returns the names that resolve to the address: another row may override a record.
func (d *Directory) confirm(names []string, addr netip.Addr, domain string) []string {
	resolves := func(name string) bool {
		a, _ := d.forward(name, domain)
		return slices.Contains(a.V4, addr) || slices.Contains(a.V6, addr)
	}
	for i, name := range names {
		if resolves(name) {
			continue
		}
		confirmed := slices.Clone(names[:i])
		for _, name := range names[i+1:] {
			if resolves(name) {
				confirmed = append(confirmed, name)
			}
		}
		return confirmed
	}
	return names
}

func qualify(names []string, domain string) []string {
	if domain == "" || len(names) == 0 {
		return names
	}
	full := make([]string, 0, len(names))
	for _, name := range names {
		if joined, ok := join(name, domain); ok {
			full = append(full, joined)
		}
	}
	return full
}
