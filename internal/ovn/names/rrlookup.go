// SPDX-License-Identifier: Apache-2.0

package names

// WithRRs returns the directory with RRTables, in the order of the UUIDs of their rows. None may be nil.
func (d Directory) WithRRs(tables []*RRTable) Directory {
	d.rrs = tables
	for _, t := range tables {
		d.wild = d.wild || len(t.names.wildcards) > 0
	}
	return d
}

// lookupWithRRs is Lookup for a directory with RRTables. Other directories avoid its copies.
func (d *Directory) lookupWithRRs(name, domain string) (Answer, bool) {
	a, found := d.forward(name, domain)
	if addr, ok := parseReverse(name); ok && !found {
		a, found = d.derivePTR(addr, domain)
	}
	if a, found = d.withRRsOf(a, found, name); found {
		return a, true
	}
	if d.wild && !d.exists(name, domain) {
		encloser := d.closestEncloser(name, domain)
		a, found = d.wildcard(encloser)
		if a, found = d.synthesizeRRs(a, found, name, encloser); found {
			return a, true
		}
	}
	if d.isOwned(name) {
		return Answer{Provenance: Provenance{sourceDNS, true}}, true
	}
	return Answer{}, false
}

// withRRsOf adds the RRs of the first row that has any for the name. found reports whether the answer exists,
// before and after.
func (d *Directory) withRRsOf(a Answer, found bool, name string) (Answer, bool) {
	for _, t := range d.rrs {
		if r := t.of(name); r != nil {
			return d.withRRs(a, found, name, r, t.owned), true
		}
	}
	return a, found
}

// withRRs adds records to an answer. A CNAME record is added only to an empty answer.
func (d *Directory) withRRs(a Answer, found bool, name string, r *RRs, owned bool) Answer {
	if found && r.alias != "" {
		return a
	}
	if !found {
		a = Answer{Provenance: Provenance{sourceDNS, d.isOwned(name)}}
	}
	a.RRs = r
	a.OVNOwned = a.OVNOwned || owned
	return a
}

func (d *Directory) synthesizeRRs(a Answer, found bool, name, encloser string) (Answer, bool) {
	for _, t := range d.rrs {
		if r := t.of(t.names.wildcard(encloser)); r != nil {
			return d.withRRs(a, found, name, r, t.owned), true
		}
	}
	return a, found
}

func (d *Directory) hasRRs(name string) bool {
	for _, t := range d.rrs {
		if t.names.find(name) != nil {
			return true
		}
	}
	return false
}

// isOwned reports whether a row that OVN owns has a record of the name, readable or not.
func (d *Directory) isOwned(name string) bool {
	for _, t := range d.tables {
		if t.owned && t.hasKey(name) {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.owned && len(t.keys[name]) > 0 {
			return true
		}
	}
	return false
}
