// SPDX-License-Identifier: Apache-2.0

package names

import "github.com/miekg/dns"

// RRs are the records of one name of the types CNAME, MX, SRV and TXT. They are immutable; the
// nil RRs are none.
type RRs struct {
	// all are by type. The header of each has the type alone.
	all []dns.RR
	// alias is the target of the CNAME record, which is the only one then; "" without one. It
	// is canonical.
	alias string
}

// Alias returns the canonical target of the CNAME record, "" if there is none. There are no
// other records beside one (RFC 2181, section 10.1).
func (r *RRs) Alias() string {
	if r == nil {
		return ""
	}
	return r.alias
}

// Of returns the records that a question of that type is answered with: those of the type, all
// for ANY, and the CNAME record whatever the type. Of their headers only the type is set.
// Callers must not change the records.
func (r *RRs) Of(qtype uint16) []dns.RR {
	if r == nil {
		return nil
	}
	if qtype == dns.TypeANY || r.alias != "" {
		return r.all
	}
	first, end := 0, 0
	for i, rr := range r.all {
		if rr.Header().Rrtype == qtype {
			if end == 0 {
				first = i
			}
			end = i + 1
		}
	}
	return r.all[first:end:end]
}
