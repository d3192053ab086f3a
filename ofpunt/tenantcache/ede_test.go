// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"math"
	"testing"

	"github.com/miekg/dns"
)

// Extended DNS Errors come back from a record, whose TTL is not the lowest of an answer with others,
// and that of one without records where there is none. Guests without EDNS get neither.
func TestErrorsRecord(t *testing.T) {
	rr, err := dns.NewRR("a.test. 600 IN A 192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	opt := func(options ...dns.EDNS0) dns.RR {
		return &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}, Option: options}
	}
	nsid, ede := &dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_EDE{InfoCode: 22, ExtraText: "x\x00"}
	for _, tt := range []struct {
		name   string
		answer []dns.RR
		extra  []dns.RR
		ttl    uint32 // of the record, 0 for none
	}{
		{"no EDNS", []dns.RR{rr}, nil, 0},
		{"another option", []dns.RR{rr}, []dns.RR{opt(nsid)}, 0},
		{"an answer", []dns.RR{rr}, []dns.RR{opt(nsid, ede)}, math.MaxInt32},
		{"no records", nil, []dns.RR{opt(ede), rr}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &dns.Msg{Answer: tt.answer, Extra: tt.extra}
			before := m.String()
			c := withErrorsRecord(m)
			if tt.ttl == 0 {
				if c != m || withErrors(c, true) != m {
					t.Error("changed")
				}
				return
			}
			if last := c.Extra[len(c.Extra)-1]; last.Header().Ttl != tt.ttl {
				t.Errorf("%v, want a TTL of %d", last, tt.ttl)
			}
			c.Extra = c.Extra[1:] // *cache* removes the OPT record
			if got := withErrors(c, false); len(got.Extra) != len(tt.extra)-1 {
				t.Errorf("without EDNS: %v", got)
			}
			got := withErrors(c, true)
			o := got.IsEdns0()
			if len(got.Extra) != len(tt.extra) || o == nil || len(o.Option) != 1 || *o.Option[0].(*dns.EDNS0_EDE) != *ede {
				t.Errorf("with EDNS: %v", got)
			}
			if m.String() != before {
				t.Errorf("%v has become %v", before, m)
			}
		})
	}
}
