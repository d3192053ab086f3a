// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// EtherTypeProbe is IEEE 802 Local Experimental Ethertype 1.
const EtherTypeProbe = 0x88b5

// IEEE 802 asks for such a mark, as anybody may use the EtherType.
const probeMagic = "puntdns\x01"

const probeLen = linkLen + len(probeMagic) + 8

// locally administered, no group
var probeMAC = [6]byte{0x02, 'p', 'u', 'n', 't', 0}

// AppendProbe appends to dst a frame of 30 bytes. Its return as a packet-in shows that punts work.
func AppendProbe(dst []byte, token uint64) []byte {
	dst, b := extend(dst, probeLen)
	b = putLink(b, probeMAC, probeMAC, Tag{}, EtherTypeProbe)
	copy(b, probeMagic)
	binary.BigEndian.PutUint64(b[len(probeMagic):], token)
	return dst
}

// ParseProbe returns the token if b is a frame of AppendProbe, maybe with padding.
func ParseProbe(b []byte) (token uint64, ok bool) {
	if len(b) < probeLen || [6]byte(b) != probeMAC || [6]byte(b[6:]) != probeMAC ||
		binary.BigEndian.Uint16(b[12:]) != EtherTypeProbe || string(b[linkLen:linkLen+len(probeMagic)]) != probeMagic {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[linkLen+len(probeMagic):]), true
}
