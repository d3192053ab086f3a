// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// EtherTypeProbe marks the frames of [AppendProbe]: IEEE 802 Local Experimental
// Ethertype 1.
const EtherTypeProbe = 0x88b5

// probeMagic precedes the token. Anybody may use the EtherType on his own network, so IEEE
// 802 asks for such a mark of whose frame it is.
const probeMagic = "puntdns\x01"

const probeLen = linkLen + len(probeMagic) + 8

// probeMAC is both ends of a probe: locally administered, and no group.
var probeMAC = [6]byte{0x02, 'p', 'u', 'n', 't', 0}

// AppendProbe appends to dst a frame of 30 bytes with a token, and returns the longer
// slice. When it comes back from the switch as a packet-in, punts do, too.
func AppendProbe(dst []byte, token uint64) []byte {
	dst, b := extend(dst, probeLen)
	b = putLink(b, probeMAC, probeMAC, Tag{}, EtherTypeProbe)
	copy(b, probeMagic)
	binary.BigEndian.PutUint64(b[len(probeMagic):], token)
	return dst
}

// ParseProbe returns the token of a frame of AppendProbe, and reports whether b is one.
// Padding behind it is ignored.
func ParseProbe(b []byte) (token uint64, ok bool) {
	if len(b) < probeLen || [6]byte(b) != probeMAC || [6]byte(b[6:]) != probeMAC ||
		binary.BigEndian.Uint16(b[12:]) != EtherTypeProbe || string(b[linkLen:linkLen+len(probeMagic)]) != probeMagic {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[linkLen+len(probeMagic):]), true
}
