// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"testing"

	"github.com/miekg/dns"
)

func TestNormalized(t *testing.T) {
	ns := &dns.NS{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: "b."}
	edns := func(f func(*dns.OPT)) func(*dns.Msg) {
		return func(m *dns.Msg) { m.SetEdns0(1232, true); f(m.IsEdns0()) }
	}
	for _, tt := range []struct {
		name string
		set  func(*dns.Msg)
		want bool // of isNormalized
	}{
		{"plain", func(*dns.Msg) {}, true},
		{"CD", func(m *dns.Msg) { m.CheckingDisabled = true }, true},
		{"AD", func(m *dns.Msg) { m.AuthenticatedData = true }, true},
		{"EDNS", edns(func(*dns.OPT) {}), true},
		{"no RD", func(m *dns.Msg) { m.RecursionDesired = false }, false},
		{"Z", func(m *dns.Msg) { m.Zero = true }, false},
		{"AA", func(m *dns.Msg) { m.Authoritative = true }, false},
		{"TC", func(m *dns.Msg) { m.Truncated = true }, false},
		{"RA", func(m *dns.Msg) { m.RecursionAvailable = true }, false},
		{"rcode", func(m *dns.Msg) { m.Rcode = dns.RcodeRefused }, false},
		{"an answer", func(m *dns.Msg) { m.Answer = []dns.RR{ns} }, false},
		{"an authority", func(m *dns.Msg) { m.Ns = []dns.RR{ns} }, false},
		{"another record", func(m *dns.Msg) { m.Extra = []dns.RR{ns} }, false},
		{"EDNS and another record", func(m *dns.Msg) { m.SetEdns0(1232, true); m.Extra = append(m.Extra, ns) }, false},
		{"a flag of EDNS", edns(func(o *dns.OPT) { o.Hdr.Ttl |= 1 }), false},
		{"an option", edns(func(o *dns.OPT) { o.Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}} }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg).SetQuestion("Www.example.", dns.TypeA)
			tt.set(m)
			if got := isNormalized(m); got != tt.want {
				t.Errorf("isNormalized is %v, want %v", got, tt.want)
			}
			before := m.String()
			p := normalized(m)
			if !isNormalized(p) || p.Id != m.Id || p.Question[0] != m.Question[0] || p.CheckingDisabled != m.CheckingDisabled || p.AuthenticatedData != m.AuthenticatedData {
				t.Errorf("%v becomes %v", m, p)
			}
			was, is := m.IsEdns0(), p.IsEdns0()
			if (was == nil) != (is == nil) || was != nil && (was.UDPSize() != is.UDPSize() || was.Do() != is.Do()) {
				t.Errorf("%v becomes %v", was, is)
			}
			if m.String() != before {
				t.Errorf("the query has become %v", m)
			}
		})
	}
}
