// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/metric"
)

// validate reports whether the chains get the query; if not, it has dealt with the exchange.
func (x *Exchange) validate() bool {
	switch accept(x.payload) {
	case acceptShort:
		x.resumeOrDrop(metric.Dropped, metric.ReasonShort)
		return false
	case acceptResponse:
		x.resumeOrDrop(metric.Dropped, metric.ReasonResponse)
		return false
	case acceptMalformed:
		x.refuse(dns.RcodeFormatError, metric.ReasonMalformed)
		return false
	case acceptOpcode:
		x.refuse(dns.RcodeNotImplemented, metric.ReasonOpcode)
		return false
	}
	r := &x.request
	if !wellFormed(x.payload) || r.Unpack(x.payload) != nil {
		x.refuse(dns.RcodeFormatError, metric.ReasonMalformed)
		return false
	}
	if x.answerWhy() {
		return false
	}
	// CoreDNS refuses a query that may not be resumed.
	if x.server.hijack() && x.transport.resumable() && refusedByServer(r) && !x.ovnOwned() {
		x.resumeOrDrop(metric.Resumed, metric.ReasonForeignQuery)
		return false
	}
	// CoreDNS answers an unknown EDNS version with BADVERS.
	if o := r.IsEdns0(); o == nil || o.Version() == 0 {
		if rcode, reason := refusedQuestion(r.Question[0], x.server.Transfers); reason != "" {
			x.refuseQuestion(rcode, reason)
			return false
		}
	}
	x.keepalive = takeKeepalive(r)
	x.ready.Store(true)
	return true
}

func (x *Exchange) refuseQuestion(rcode int, reason string) {
	if x.server.hijack() && x.ovnOwned() {
		x.replyError(rcode, metric.Refused, reason)
		return
	}
	x.refuse(rcode, reason)
}

// RefuseTransfer refuses a zone transfer in a chain without a plugin for transfers.
func (x *Exchange) RefuseTransfer() { x.refuseQuestion(dns.RcodeRefused, metric.ReasonTransfer) }

// ovnOwned reports whether OVN owns the name. Such a query never leaves the node, even if no plugin handles its
// type, class or EDNS version.
func (x *Exchange) ovnOwned() bool {
	return x.server.OVNOwned(&x.from.origin, strings.ToLower(x.request.Question[0].Name))
}

// refusedByServer reports whether CoreDNS would refuse a query before any chain.
func refusedByServer(r *dns.Msg) bool {
	o := r.IsEdns0()
	return r.Question[0].Qclass != dns.ClassINET || o != nil && o.Version() != 0
}

type acceptance uint8

const (
	acceptQuery acceptance = iota
	acceptShort
	acceptResponse
	acceptMalformed
	acceptOpcode
)

// accept checks the header as CoreDNS does on a socket, except for NOTIFY.
func accept(m []byte) acceptance {
	if len(m) < headerLen {
		return acceptShort
	}
	h := dns.Header{
		Id:      binary.BigEndian.Uint16(m),
		Bits:    binary.BigEndian.Uint16(m[2:]),
		Qdcount: binary.BigEndian.Uint16(m[4:]),
		Ancount: binary.BigEndian.Uint16(m[6:]),
		Nscount: binary.BigEndian.Uint16(m[8:]),
		Arcount: binary.BigEndian.Uint16(m[10:]),
	}
	// CoreDNS takes NOTIFY, but no plugin here does. In hijack mode it is resumed.
	if h.Bits>>11&0xf == dns.OpcodeNotify && h.Bits&bitQR == 0 {
		return acceptOpcode
	}
	switch dns.DefaultMsgAcceptFunc(h) {
	case dns.MsgAccept:
		return acceptQuery
	case dns.MsgIgnore:
		return acceptResponse
	case dns.MsgRejectNotImplemented:
		return acceptOpcode
	}
	return acceptMalformed
}
