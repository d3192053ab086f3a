// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// keepaliveUnit is the unit of edns-tcp-keepalive (RFC 7828, section 3.1).
const keepaliveUnit = 100 * time.Millisecond

const (
	// keepaliveMargin allows for the arrival of queries sent in time.
	keepaliveMargin = time.Second
	// closeWait is how long a guest with timeout 0 has to close the connection (RFC 7828, section 3.4).
	closeWait = time.Second
)

// takeKeepalive removes edns-tcp-keepalive, which is hop-by-hop (RFC 7828, section 3.5), and reports whether it was
// present.
func takeKeepalive(r *dns.Msg) bool {
	o := r.IsEdns0()
	if o == nil || !slices.ContainsFunc(o.Option, isKeepalive) {
		return false
	}
	o.Option = slices.DeleteFunc(o.Option, isKeepalive)
	return true
}

func isKeepalive(o dns.EDNS0) bool { return o.Option() == dns.EDNS0TCPKEEPALIVE }

// setKeepalive replaces an upstream's option. A timeout below 0 is for none.
func setKeepalive(m *dns.Msg, timeout int) {
	o := m.IsEdns0()
	if o == nil {
		return
	}
	if slices.ContainsFunc(o.Option, isKeepalive) {
		o.Option = slices.DeleteFunc(slices.Clone(o.Option), isKeepalive)
	}
	if timeout >= 0 {
		// dns.EDNS0_TCP_KEEPALIVE omits a timeout of 0, which answers must have.
		o.Option = append(slices.Clip(o.Option), &dns.EDNS0_LOCAL{
			Code: dns.EDNS0TCPKEEPALIVE, Data: binary.BigEndian.AppendUint16(nil, uint16(timeout)),
		})
	}
}

// asksKeepalive needs no parser. It expects one question, followed by OPT.
func asksKeepalive(m []byte) bool {
	if len(m) < headerLen {
		return false
	}
	const lengthAt = 9 // after root, type, class, TTL
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

// appendKeepalive changes only an answer of appendError with OPT.
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

// promise returns the edns-tcp-keepalive timeout, -1 for none. asks is set if the query has the option. An answer
// after the deadline is not sent, so it promises nothing.
func (x *Exchange) promise(asks bool) int {
	if !asks || x.done.Load() {
		return -1
	}
	return x.transport.promise(x.server.IdleTimeout)
}

func (m *message) promise(idle time.Duration) int {
	if m.last || m.connection.intake.bridge.Draining.Load() || m.connection.conn.Crowded() {
		idle = 0
	}
	units := unitsOf(idle)
	m.connection.promise(units)
	return units
}

func unitsOf(idle time.Duration) int { return min(int(idle/keepaliveUnit), math.MaxUint16) }
