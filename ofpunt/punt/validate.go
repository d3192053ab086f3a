// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/metric"
)

// validate decodes the DNS message and checks it. It reports whether it is a query for the chains; else the
// exchange has been dealt with.
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
	// A query that may not be resumed is refused by the server.
	if x.server.hijack() && x.transport.resumable() && refusedByServer(r) && !x.ovnOwned() {
		x.resumeOrDrop(metric.Resumed, metric.ReasonForeignQuery)
		return false
	}
	// An EDNS version that is not known comes first: the server answers BADVERS.
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

// refuseQuestion refuses a question that no chain gets.
func (x *Exchange) refuseQuestion(rcode int, reason string) {
	if x.server.hijack() && x.ovnOwned() {
		x.replyError(rcode, metric.Refused, reason)
		return
	}
	x.refuse(rcode, reason)
}

// RefuseTransfer refuses a zone transfer that has come to a chain without a plugin for it, as it is
// refused before the chains where none has one.
func (x *Exchange) RefuseTransfer() { x.refuseQuestion(dns.RcodeRefused, metric.ReasonTransfer) }

// ovnOwned reports whether OVN owns the name of the question. Such a query never leaves the node, even if no
// plugin here takes its type, its class or its version of EDNS.
func (x *Exchange) ovnOwned() bool {
	return x.server.OVNOwned(&x.from.origin, strings.ToLower(x.request.Question[0].Name))
}

// refusedByServer reports whether CoreDNS's server would refuse a query by itself, before
// any chain: another class than IN, or an EDNS version that is not known.
func refusedByServer(r *dns.Msg) bool {
	o := r.IsEdns0()
	return r.Question[0].Qclass != dns.ClassINET || o != nil && o.Version() != 0
}

// What accept makes of the header of a DNS message.
type acceptance uint8

const (
	acceptQuery acceptance = iota
	acceptShort
	acceptResponse
	acceptMalformed
	acceptOpcode
)

// accept checks a message by its header, as CoreDNS does on a socket, apart from NOTIFY.
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
	// CoreDNS takes NOTIFY, which is for servers that have zones from others: no
	// plugin here does. In hijack mode it is on its way to one that may.
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
