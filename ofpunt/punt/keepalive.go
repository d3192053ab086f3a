// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// keepaliveUnit is what the timeout of edns-tcp-keepalive counts (RFC 7828, section 3.1).
const keepaliveUnit = 100 * time.Millisecond

const (
	// keepaliveMargin is for a query to arrive that the guest sends within the time that it
	// was promised.
	keepaliveMargin = time.Second
	// closeWait is how long a guest with the timeout 0 may be idle: the guest is to end the connection (RFC
	// 7828, section 3.4).
	closeWait = time.Second
)

// takeKeepalive takes edns-tcp-keepalive out of a query, and reports whether it was
// there. The option is of one connection and goes no further (RFC 7828, section 3.5).
func takeKeepalive(r *dns.Msg) bool {
	o := r.IsEdns0()
	if o == nil || !slices.ContainsFunc(o.Option, isKeepalive) {
		return false
	}
	o.Option = slices.DeleteFunc(o.Option, isKeepalive)
	return true
}

func isKeepalive(o dns.EDNS0) bool { return o.Option() == dns.EDNS0TCPKEEPALIVE }

// setKeepalive gives an answer the option with that timeout, and takes away the one that
// an upstream may have put there. A timeout below 0 is for none.
func setKeepalive(m *dns.Msg, timeout int) {
	o := m.IsEdns0()
	if o == nil {
		return
	}
	if slices.ContainsFunc(o.Option, isKeepalive) {
		o.Option = slices.DeleteFunc(slices.Clone(o.Option), isKeepalive)
	}
	if timeout >= 0 {
		// The type of the library leaves out a timeout of 0, which answers have to have.
		o.Option = append(slices.Clip(o.Option), &dns.EDNS0_LOCAL{
			Code: dns.EDNS0TCPKEEPALIVE, Data: binary.BigEndian.AppendUint16(nil, uint16(timeout)),
		})
	}
}

// asksKeepalive reports whether a message with one question and an OPT record behind it
// has edns-tcp-keepalive. Like appendError it needs no parser.
func asksKeepalive(m []byte) bool {
	if len(m) < headerLen {
		return false
	}
	const lengthAt = 9 // of the record: root, type, class, TTL
	opt := m[headerLen+questionLen(m):]
	if len(opt) < len(bareOPT) || [3]byte(opt) != [3]byte(bareOPT[:]) {
		return false
	}
	options := opt[len(bareOPT):]
	options = options[:min(len(options), int(binary.BigEndian.Uint16(opt[lengthAt:])))]
	for len(options) >= 4 {
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if code == dns.EDNS0TCPKEEPALIVE {
			return true
		}
		options = options[min(4+n, len(options)):]
	}
	return false
}

// appendKeepalive appends edns-tcp-keepalive to an answer of appendError. One without an
// OPT record is returned as it was.
func appendKeepalive(answer []byte, timeout int) []byte {
	const additionalAt = 10
	if timeout < 0 || binary.BigEndian.Uint16(answer[additionalAt:]) == 0 {
		return answer
	}
	const option = 6 // bytes
	binary.BigEndian.PutUint16(answer[len(answer)-2:], option)
	answer = binary.BigEndian.AppendUint16(answer, dns.EDNS0TCPKEEPALIVE)
	answer = binary.BigEndian.AppendUint16(answer, option-4)
	return binary.BigEndian.AppendUint16(answer, uint16(timeout))
}

// promise returns the timeout of edns-tcp-keepalive for an answer, -1 for no option. asks is set if the query
// has the option. The connection keeps the promise. An answer after the deadline is not sent, and promises
// nothing.
func (x *Exchange) promise(asks bool) int {
	if !asks || x.done.Load() {
		return -1
	}
	return x.transport.promise(x.server.IdleTimeout)
}

// promise implements transport.
func (m *message) promise(idle time.Duration) int {
	if m.last || m.connection.intake.bridge.Draining.Load() || m.connection.conn.Crowded() {
		idle = 0
	}
	units := unitsOf(idle)
	m.connection.promise(units)
	return units
}

// unitsOf returns a timeout in units of keepaliveUnit, at most the largest that the option has.
func unitsOf(idle time.Duration) int { return min(int(idle/keepaliveUnit), math.MaxUint16) }
