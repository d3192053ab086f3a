// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/miekg/dns"
)

// *cache* removes OPT, so Extended DNS Errors (RFC 8914) pass in an additional record, with an empty label as no
// message has.
const errorsOwner = ".."

func withErrorsRecord(m *dns.Msg) *dns.Msg {
	o := m.IsEdns0()
	if o == nil {
		return m
	}
	var text []string // INFO-CODE and EXTRA-TEXT of each
	for _, option := range o.Option {
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			text = append(text, strconv.Itoa(int(e.InfoCode)), e.ExtraText)
		}
	}
	if text == nil {
		return m
	}
	c := *m
	// *cache* takes the lowest TTL.
	ttl := uint32(math.MaxInt32)
	if len(m.Answer)+len(m.Ns) == 0 {
		ttl = uint32(dnsutil.MinimalDefaultTTL / time.Second)
	}
	c.Extra = append(slices.Clip(m.Extra), &dns.TXT{Hdr: dns.RR_Header{Name: errorsOwner, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: ttl}, Txt: text})
	return &c
}

// withErrors undoes withErrorsRecord. With edns it restores an OPT record that *cache* has removed.
func withErrors(m *dns.Msg, edns bool) *dns.Msg {
	i := slices.IndexFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Name == errorsOwner })
	if i < 0 {
		return m
	}
	c := *m
	c.Extra = slices.Delete(slices.Clone(m.Extra), i, i+1)
	if t, ok := m.Extra[i].(*dns.TXT); ok && edns && m.IsEdns0() == nil {
		o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		for e := range slices.Chunk(t.Txt, 2) {
			code, _ := strconv.Atoi(e[0])
			o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: uint16(code), ExtraText: e[1]})
		}
		c.Extra = append(c.Extra, o)
	}
	return &c
}
