// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
)

// Directory is all names of one network. It is immutable.
type Directory struct {
	tables []*Table // the first that knows a name answers
	hosts  *Hostnames
	rrs    []*RRTable // the first that has records of a name counts; nil for none
	wild   bool       // a table has a wildcard
}

// NewDirectory returns the directory of a network: its DNS rows in the order of
// their UUIDs, and its ports.
func NewDirectory(tables []*Table, hosts *Hostnames) Directory {
	d := Directory{tables: tables, hosts: hosts}
	for _, t := range tables {
		d.wild = d.wild || len(t.records.wildcards) > 0
	}
	return d
}

// Lookup finds a canonical name. domain, canonical or "", completes the hostnames of
// ports for which OVN states no domain: it belongs to who asks and not to the
// network, since several askers may read one network with different ones.
//
// Of several sources of one name the first counts, as a whole: the DNS rows in
// the order of their UUIDs, then the ports, all of that hostname together. A
// record without a readable value is as good as absent, but that of a row that OVN
// owns is the name's without data.
//
// A reverse name is answered with a record of that name, else with the names
// whose address it is, in the same order of sources. Fully qualified names are
// preferred to single labels, and only names that resolve to that address are
// given. A wildcard record is no name of its addresses.
//
// The records of RRTables are beside all of these, but for CNAME records, which a name has
// alone.
//
// A name that does not exist is answered with a wildcard record of a DNS row, if
// there is one directly below the closest encloser (RFC 4592, section 3.3). All
// names of the network, its ports' included, are one tree in that.
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
	// A name of a row that OVN owns is nobody else's to answer.
	if d.isOwned(name) {
		return Answer{Provenance: Provenance{sourceDNS, true}}, true
	}
	return Answer{}, false
}

// Empty reports whether a name that Lookup does not find exists nevertheless, as
// an empty non-terminal: there are names below it. To deny it would deny those
// too (RFC 8020, section 2). The arguments are those of Lookup.
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

// HasMachine reports whether the address is one of HostnamesBuilder.SetMachines.
func (d *Directory) HasMachine(a netip.Addr) bool {
	_, ok := d.hosts.machines[a]
	return ok
}

// Match is the records that a name has itself, whatever domain completes the hostnames of
// ports.
type Match struct {
	entry *entry
	from  Provenance
	rrs   *RRs
}

// Answer returns what the network knows of the name. The Match must not be the zero one.
func (m *Match) Answer() Answer {
	a := m.entry.answer(m.from)
	a.RRs = m.rrs
	return a
}

// Exact finds the records of a canonical name that has addresses or PTR records, and reports
// whether it has any.
func (d *Directory) Exact(name string) (Match, bool) {
	m, ok := d.exact(name)
	if ok && len(d.rrs) > 0 {
		a, _ := d.withRRsOf(Answer{Provenance: m.from}, true, name)
		m.rrs, m.from = a.RRs, a.Provenance
	}
	return m, ok
}

// exact is Exact without RRs.
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

// forward finds a name by its own addresses or PTR records.
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

// derivePTR finds the names of an address.
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

// derivesWithin reports whether an address of the prefix has a name.
func (d *Directory) derivesWithin(p netip.Prefix) bool {
	for _, t := range d.tables {
		if t.records.hasWithin(p) {
			return true
		}
	}
	return d.hosts.names.hasWithin(p) || d.hosts.bare.hasWithin(p)
}

// exists reports whether the name has records or names below it. Names below it that
// are derived from addresses do not count.
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

// confirm returns those of the names that resolve to the address: a record of one row
// may be overridden by another row. It copies only if it leaves some out.
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

// qualify appends the domain to hostnames.
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
