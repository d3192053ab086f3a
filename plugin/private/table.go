// SPDX-License-Identifier: Apache-2.0

package private

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

type zone struct {
	authority.EmptyZone
	class class
}

// table is immutable.
type table struct {
	// zones are by name, fully qualified in lower case; nil if excepted.
	zones map[string]*zone
	// above are names above zones: denying one would deny the zone (RFC 8020).
	above map[string]bool
}

// The longest zone of except and also counts.
func newTable(except, also []string, ttl uint32) table {
	t := table{zones: map[string]*zone{}, above: map[string]bool{}}
	for _, b := range builtins() {
		if !slices.ContainsFunc(except, func(e string) bool { return names.Under(b.name, e) }) {
			t.zones[b.name] = &zone{authority.EmptyZone{Name: b.name, TTL: ttl, Lookup: b.lookup}, b.class}
		}
	}
	for _, z := range also {
		if t.zones[z] == nil {
			t.zones[z] = &zone{authority.EmptyZone{Name: z, TTL: ttl}, classAlso}
		}
	}
	for _, z := range except {
		t.zones[z] = nil
	}
	for z := range t.zones {
		for _, i := range dns.Split(z)[1:] {
			t.above[z[i:]] = true
		}
	}
	return t
}

func (t *table) exists(qname string) bool {
	_, known := t.zones[qname]
	return known || t.above[qname]
}

// A DS record belongs to the parent zone (RFC 4035, section 3.1.4.1), so a DS query for a zone goes to the next
// plugin. A validating resolver learns there that the zone is not signed.
func (t *table) find(qname string, qtype uint16) (z *zone, excepted bool) {
	for off, end := 0, false; !end; off, end = dns.NextLabel(qname, off) {
		if off == 0 && qtype == dns.TypeDS {
			continue
		}
		if z, known := t.zones[qname[off:]]; known {
			return z, z == nil
		}
	}
	return nil, false
}
