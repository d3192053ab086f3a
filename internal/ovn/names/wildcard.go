// SPDX-License-Identifier: Apache-2.0

package names

// closestEncloser returns the longest existing ancestor of a name that does not exist (RFC 4592, section
// 3.3.1).
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
	for _, t := range d.tables {
		if e := t.records.find(t.records.wildcard(encloser)); e != nil {
			return e.answer(t.provenance()), true
		}
	}
	return Answer{}, false
}

func (d *Directory) isAboveWildcard(name string) bool {
	for _, t := range d.tables {
		if t.records.isAboveWildcard(name) {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.names.isAboveWildcard(name) {
			return true
		}
	}
	return false
}

// hasWildcard reports whether a wildcard exists below the closest encloser of a name that does not exist, with
// data or without.
func (d *Directory) hasWildcard(name, domain string) bool {
	if !d.wild {
		return false
	}
	encloser := d.closestEncloser(name, domain)
	for _, t := range d.tables {
		if t.records.wildcard(encloser) != "" {
			return true
		}
	}
	for _, t := range d.rrs {
		if t.names.wildcard(encloser) != "" {
			return true
		}
	}
	return false
}
