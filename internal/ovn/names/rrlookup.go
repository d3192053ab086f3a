// SPDX-License-Identifier: Apache-2.0

package names

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

func (d *Directory) withRRsOf(a Answer, found bool, name string) (Answer, bool) {
	for _, t := range d.rrs.of(kindExact, name) {
		if r := t.of(name); r != nil {
			return d.withRRs(a, found, name, r, t.owned), true
		}
	}
	return a, found
}

// A CNAME record is added only to an empty answer.
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
	for _, t := range d.rrs.of(kindWildcard, encloser) {
		if r := t.of(t.names.wildcard(encloser)); r != nil {
			return d.withRRs(a, found, name, r, t.owned), true
		}
	}
	return a, found
}

func (d *Directory) isOwned(name string) bool {
	for _, t := range d.tables.of(kindOwned, name) {
		if t.owned && t.hasKey(name) {
			return true
		}
	}
	return d.rrs.has(kindOwned, name)
}
