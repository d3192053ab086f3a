// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	questionTail = 4  // QTYPE, QCLASS
	recordTail   = 10 // TYPE, CLASS, TTL, RDLENGTH (RFC 1035, section 4.1.3)
	// in bytes, with the root (RFC 1035, section 2.3.4)
	maxWireName = 255
)

// wellFormed reports whether m, with a whole header, is one question and the promised records. miekg/dns also takes
// truncated messages, class 0 (reserved by RFC 6895, section 3.2), forward compression pointers, and OPT anywhere.
func wellFormed(m []byte) bool {
	if binary.BigEndian.Uint16(m[4:]) != 1 {
		return false
	}
	at, ok := skipName(m, headerLen)
	if !ok || len(m)-at < questionTail || binary.BigEndian.Uint16(m[at+2:]) == 0 {
		return false
	}
	at += questionTail

	const additional = 10 // offset of ARCOUNT
	opts := 0
	for section := 6; section <= additional; section += 2 {
		for range binary.BigEndian.Uint16(m[section:]) {
			typ, end, ok := skipRecord(m, at)
			if !ok {
				return false
			}
			if typ == dns.TypeOPT {
				// One at most, in the additional section, of the root (RFC 6891, sections 6.1.1 and 6.1.2).
				if opts++; opts > 1 || section != additional || m[at] != 0 {
					return false
				}
			}
			at = end
		}
	}
	return true
}

func skipRecord(m []byte, at int) (typ uint16, end int, ok bool) {
	if at, ok = skipName(m, at); !ok || len(m)-at < recordTail {
		return 0, 0, false
	}
	end = at + recordTail + int(binary.BigEndian.Uint16(m[at+8:]))
	return binary.BigEndian.Uint16(m[at:]), end, end <= len(m)
}

// skipName requires that a compression pointer leads before the name and the previous pointer's target (RFC 1035,
// section 4.1.4), so no name is endless.
func skipName(m []byte, at int) (end int, ok bool) {
	before, length := at, 1
	for at < len(m) {
		switch c := int(m[at]); {
		case c == 0:
			if end == 0 {
				end = at + 1
			}
			return end, true
		case c < 64:
			if length += 1 + c; length > maxWireName {
				return 0, false
			}
			at += 1 + c
		case c >= 0xc0 && at+1 < len(m):
			if end == 0 {
				end = at + 2
			}
			if at = c&0x3f<<8 | int(m[at+1]); at >= before {
				return 0, false
			}
			before = at
		default:
			return 0, false // 01 and 10 are reserved
		}
	}
	return 0, false
}
