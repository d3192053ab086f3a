// SPDX-License-Identifier: Apache-2.0

package names

// closestEncloser is for a name that does not exist (RFC 4592, section 3.3.1).
func (d *Directory) closestEncloser(name, domain string) string {
	for name != "." {
		if name = parent(name); d.exists(name, domain) {
			break
		}
	}
	return name
}

func (d *Directory) synthesize(name, domain string) (Answer, bool) {
	if !d.wild || d.exists(name, domain) {
		return Answer{}, false
	}
	return d.wildcard(d.closestEncloser(name, domain))
}

func (d *Directory) wildcard(encloser string) (Answer, bool) {
	for _, t := range d.tables.of(kindWildcard, encloser) {
		if e := t.records.find(t.records.wildcard(encloser)); e != nil {
			return e.answer(t.provenance()), true
		}
	}
	return Answer{}, false
}

func (d *Directory) hasWildcard(name, domain string) bool {
	if !d.wild {
		return false
	}
	encloser := d.closestEncloser(name, domain)
	return d.tables.has(kindAnyWildcard, encloser) || d.rrs.has(kindAnyWildcard, encloser)
}
