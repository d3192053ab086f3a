// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Directory has all names of one network. It is immutable.
type Directory struct {
	tables []*Table // the first with a name answers
	hosts  *Hostnames
	rrs    []*RRTable // the first with RRs of a name counts; nil for none
	wild   bool       // a table has a wildcard
}

// NewDirectory returns the directory of a network with DNS rows, in the order of their UUIDs, and ports.
func NewDirectory(tables []*Table, hosts *Hostnames) Directory {
	d := Directory{tables: tables, hosts: hosts}
	for _, t := range tables {
		d.wild = d.wild || len(t.records.wildcards) > 0
	}
	return d
}

// Lookup answers for a canonical name. domain, canonical or "", completes the hostnames of ports without a
// domain in OVN. It is a parameter, as several plugins may read one network with different domains.
//
// The first source of a name answers alone: DNS rows in the order of their UUIDs, then all ports with the
// hostname. A record without a readable value is ignored; in a row that OVN owns it makes the name exist
// without data.
//
// A record of a reverse name answers it. Otherwise the names with the address answer, in the same order of
// sources. They must resolve to the address. Longer names hide single labels. Wildcards do not count.
//
// Records of RRTables are added to all of these, except CNAME records, which count only alone.
//
// A name that does not exist is answered from the wildcard of a DNS row directly below its closest encloser
// (RFC 4592, section 3.3). All names of the network, including ports, form one tree.
func (d *Directory) Lookup(name, domain string) (Answer, bool) {
	if len(d.rrs) > 0 {
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

// Empty reports whether a name that Lookup does not find is an empty non-terminal. To deny it would also deny
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

// Match is the records of a name, without derived ones and completed hostnames.
type Match struct {
	entry *entry
	from  Provenance
	rrs   *RRs
}

// Answer must not be called on a zero Match.
func (m *Match) Answer() Answer {
	a := m.entry.answer(m.from)
	a.RRs = m.rrs
	return a
}

// Exact finds the Match of a canonical name with addresses or PTR records.
func (d *Directory) Exact(name string) (Match, bool) {
	m, ok := d.exact(name)
	if ok && len(d.rrs) > 0 {
		a, _ := d.withRRsOf(Answer{Provenance: m.from}, true, name)
		m.rrs, m.from = a.RRs, a.Provenance
	}
	return m, ok
}

func (d *Directory) exact(name string) (Match, bool) {
	for _, t := range d.tables {
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
	for _, t := range d.tables {
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
	for _, t := range d.tables {
		if t.records.hasWithin(p) {
			return true
		}
	}
	return d.hosts.names.hasWithin(p) || d.hosts.bare.hasWithin(p)
}

// exists reports whether the name has records, or names below it. Reverse names derived from addresses do not
// count.
func (d *Directory) exists(name, domain string) bool {
	for _, t := range d.tables {
		if t.records.exists(name) {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.names.exists(name) {
			return true
		}
	}
	return d.hosts.exists(name, domain)
}

// confirm returns the names that resolve to the address, as another row may override a record.
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
