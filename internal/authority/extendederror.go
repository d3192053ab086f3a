// SPDX-License-Identifier: Apache-2.0

package authority

import "github.com/miekg/dns"

// AddError adds an Extended DNS Error (RFC 8914) to an answer without an OPT record, if the query has one.
func AddError(m, query *dns.Msg, code uint16) {
	o := query.IsEdns0()
	if o == nil {
		return
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(o.UDPSize())
	opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code}}
	m.Extra = append(m.Extra, opt)
}
