// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// headerLen is the length of a DNS header (RFC 1035, section 4.1.1).
const headerLen = 12

// Bits of the second 16-bit word of a DNS header, and what of the question's word
// returns in an error: opcode, RD and CD.
const (
	bitQR      = 1 << 15
	echoedBits = 0xf<<11 | 1<<8 | 1<<4
)

// bareOPT is an OPT record without options (RFC 6891, section 6.1.2): root,
// type 41, the payload size that this process takes, no flags.
var bareOPT = [11]byte{0, 0, 41, maxPayload >> 8, maxPayload & 0xff}

// appendError appends the answer to the DNS message m with rcode and nothing in
// it but m's question and, where m has one, an OPT record. It needs no parser
// and allocates nothing, since it also speaks for queries that there is no room
// for. It returns nil when m has no whole header.
func appendError(dst, m []byte, rcode int) []byte {
	if len(m) < headerLen {
		return nil
	}
	question := questionLen(m)
	opt := question > 0 && binary.BigEndian.Uint32(m[6:]) == 0 && // no answer, no authority
		binary.BigEndian.Uint16(m[10:]) > 0 && len(m) >= headerLen+question+len(bareOPT) &&
		[3]byte(m[headerLen+question:]) == [3]byte{0, 0, byte(dns.TypeOPT)}

	dst = append(dst, m[:2]...)
	dst = binary.BigEndian.AppendUint16(dst, bitQR|binary.BigEndian.Uint16(m[2:])&echoedBits|uint16(rcode&0xf))
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
		dst = append(dst, bareOPT[:]...)
	}
	return dst
}

// questionLen is the length of the one question of m, 0 where it has not just
// one that is whole and plain (a first name has nothing to point back to).
func questionLen(m []byte) int {
	if binary.BigEndian.Uint16(m[4:]) != 1 {
		return 0
	}
	const tail = 4 // QTYPE and QCLASS
	for i := headerLen; i < len(m) && i-headerLen < 255; i += 1 + int(m[i]) {
		switch {
		case m[i] > 63:
			return 0
		case m[i] == 0 && i+1+tail <= len(m):
			return i + 1 + tail - headerLen
		case m[i] == 0:
			return 0
		}
	}
	return 0
}
