// SPDX-License-Identifier: Apache-2.0

package names

import "github.com/miekg/dns"

// RRs are the CNAME, MX, SRV and TXT records of one name. They are immutable; nil means none.
type RRs struct {
	// all are sorted by type. Their headers have only the type.
	all   []dns.RR
	alias string
}

// Alias returns the canonical target of a CNAME record, which is the only record (RFC 2181, section 10.1), or
// "".
func (r *RRs) Alias() string {
	if r == nil {
		return ""
	}
	return r.alias
}

// Of returns the records that answer qtype: a CNAME record for any type, all records for ANY. Callers must
// not change them.
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
