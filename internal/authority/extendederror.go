// SPDX-License-Identifier: Apache-2.0

package authority

import "github.com/miekg/dns"

// AddError adds an Extended DNS Error (RFC 8914), text is its EXTRA-TEXT, to an answer without an OPT record, if the query has
// one.
func AddError(m, query *dns.Msg, code uint16, text string) {
	o := query.IsEdns0()
	if o == nil {
		return
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(o.UDPSize())
	opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code, ExtraText: text}}
	m.Extra = append(m.Extra, opt)
}
