// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/metric"
)

// headerLen is the length of a DNS header (RFC 1035, section 4.1.1).
const headerLen = 12

// Bits of the second 16-bit word of a DNS header.
const (
	bitQR      = 1 << 15
	opcodeBits = 0xf << 11
	bitRD      = 1 << 8
	bitRA      = 1 << 7
	bitCD      = 1 << 4
)

// bareOPT is an OPT record without options (RFC 6891, section 6.1.2).
var bareOPT = [11]byte{0, 0, 41, maxPayload >> 8, maxPayload & 0xff}

// Offset of the flags in an OPT record, and DO (RFC 6891, section 6.1.3).
const (
	flagsAt = 7
	bitDO   = 1 << 7
)

// appendError appends the answer to m with rcode, m's question and, if m has OPT, OPT with the same DO. It does not
// parse or allocate, as it also answers rejected queries. It returns nil without a whole header.
func appendError(dst, m []byte, rcode int, recursive bool) []byte {
	if len(m) < headerLen {
		return nil
	}
	question := questionLen(m)
	opt := question > 0 && binary.BigEndian.Uint32(m[6:]) == 0 && // no answer, no authority
		binary.BigEndian.Uint16(m[10:]) > 0 && len(m) >= headerLen+question+len(bareOPT) &&
		[3]byte(m[headerLen+question:]) == [3]byte{0, 0, byte(dns.TypeOPT)}

	asked := binary.BigEndian.Uint16(m[2:])
	flags := bitQR | asked&opcodeBits | uint16(rcode&0xf)
	if asked&opcodeBits == dns.OpcodeQuery {
		// Other opcodes get NOTIMP without flags, as with BIND (RFC 8906, section 8.1.4).
		flags |= asked & (bitRD | bitCD)
		if recursive {
			flags |= bitRA
		}
	}
	dst = append(dst, m[:2]...)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	counts := [4]uint16{}
	if question > 0 {
		counts[0] = 1
	}
	if opt {
		counts[3] = 1
	}
	for _, n := range counts {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	dst = append(dst, m[headerLen:headerLen+question]...)
	if opt {
		record := bareOPT
		record[flagsAt] = m[headerLen+question+flagsAt] & bitDO // RFC 3225, section 3
		dst = append(dst, record[:]...)
	}
	return dst
}

// questionLen returns the length of m's question, or 0 unless m has one whole, uncompressed question.
func questionLen(m []byte) int {
	if binary.BigEndian.Uint16(m[4:]) != 1 {
		return 0
	}
	for i := headerLen; i < len(m) && i-headerLen < maxWireName; i += 1 + int(m[i]) {
		switch {
		case m[i] > 63:
			return 0
		case m[i] == 0 && i+1+questionTail <= len(m):
			return i + 1 + questionTail - headerLen
		case m[i] == 0:
			return 0
		}
	}
	return 0
}

// Query types without data (RFC 6895, section 3.1).
const (
	firstMetaType = 128
	lastMetaType  = dns.TypeANY
)

// refusedQuestion returns the rcode of BIND 9.18 and the reason for a question that no chain gets, else no reason.
func refusedQuestion(q dns.Question, transfers bool) (rcode int, reason string) {
	switch q.Qclass {
	case dns.ClassANY, dns.ClassNONE:
		// Only UPDATE uses these classes (RFC 2136, section 2.4); no zone has class ANY.
		return dns.RcodeFormatError, metric.ReasonForeignQuery
	}
	switch t := q.Qtype; {
	case t == dns.TypeANY:
	case t == dns.TypeAXFR, t == dns.TypeIXFR:
		if !transfers {
			return dns.RcodeRefused, metric.ReasonTransfer
		}
	case t == dns.TypeMAILA, t == dns.TypeMAILB:
		return dns.RcodeNotImplemented, metric.ReasonType // obsolete, RFC 1035, section 3.2.3
	case t == dns.TypeOPT, firstMetaType <= t && t <= lastMetaType:
		return dns.RcodeFormatError, metric.ReasonType
	}
	return 0, ""
}
