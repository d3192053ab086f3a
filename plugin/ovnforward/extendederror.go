// SPDX-License-Identifier: Apache-2.0

package ovnforward

import "github.com/miekg/dns"

// errorAnnotator adds the reason to a SERVFAIL (RFC 8914). It is above *cache*, to recognize a cached
// failure.
type errorAnnotator struct {
	dns.ResponseWriter
	query     *dns.Msg
	forwarder *forwarder
}

func (e *errorAnnotator) WriteMsg(m *dns.Msg) error {
	asked := e.query.IsEdns0()
	if m.Rcode != dns.RcodeServerFailure || asked == nil {
		return e.ResponseWriter.WriteMsg(m)
	}
	ede := &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNoReachableAuthority}
	switch e.forwarder.outcome.Load() {
	case answered:
		return e.ResponseWriter.WriteMsg(m) // the server's own failure
	case unasked:
		ede.InfoCode = dns.ExtendedErrorCodeCachedError
	}
	c := m.Copy() // *cache* may have it
	if c.IsEdns0() == nil {
		c.SetEdns0(asked.UDPSize(), asked.Do())
	}
	o := c.IsEdns0()
	o.Option = append(o.Option, ede)
	return e.ResponseWriter.WriteMsg(c)
}
