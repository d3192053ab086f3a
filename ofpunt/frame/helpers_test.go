// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"encoding/binary"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

var (
	guestMAC    = [6]byte{0x02, 0, 0, 0, 0, 0x0a}
	resolverMAC = [6]byte{0x02, 0, 0, 0, 0, 0x0b}
	tag100      = frame.Tag{Tagged: true, VLAN: 100, Priority: 0xb000}
)

// onesComplement is the sum of RFC 1071, 16 bits at a time.
func onesComplement(parts ...[]byte) uint16 {
	var acc uint32
	for _, b := range parts {
		for i, v := range b {
			if i%2 == 0 {
				acc += uint32(v) << 8
			} else {
				acc += uint32(v)
			}
			acc = acc&0xffff + acc>>16
		}
	}
	return uint16(acc)
}

// edit changes a copy of a frame.
type edit func(b []byte) []byte

func edited(b []byte, edits ...edit) []byte {
	b = slices.Clone(b)
	for _, e := range edits {
		b = e(b)
	}
	return b
}

// at overwrites the bytes at off.
func at(off int, v ...byte) edit {
	return func(b []byte) []byte { copy(b[off:], v); return b }
}

// cut leaves the first n bytes.
func cut(n int) edit {
	return func(b []byte) []byte { return b[:n] }
}

// insert puts bytes in at off.
func insert(off int, v ...byte) edit {
	return func(b []byte) []byte { return slices.Insert(b, off, v...) }
}

// sum4 sets the header checksum of the IPv4 packet at offset 14.
func sum4(b []byte) []byte {
	ip := b[14:]
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^onesComplement(ip[:ip[0]&0xf*4]))
	return b
}

// sum6 sets the checksum at off of a message of proto at offset 54 of an
// untagged IPv6 frame.
func sum6(proto byte, off int) edit {
	return func(b []byte) []byte {
		m := b[54:]
		m[off], m[off+1] = 0, 0
		length := binary.BigEndian.AppendUint32(nil, uint32(len(m)))
		binary.BigEndian.PutUint16(m[off:], ^onesComplement(b[22:54], length, []byte{0, proto}, m))
		return b
	}
}

// udp4Sum makes the UDP checksum of an untagged IPv4 frame without options
// right, and the header's.
func udp4Sum(b []byte) []byte {
	sum4(b)
	d := b[34:]
	d[6], d[7] = 0, 0
	binary.BigEndian.PutUint16(d[6:], ^onesComplement(b[26:34], []byte{0, 17}, d[4:6], d[:binary.BigEndian.Uint16(d[4:])]))
	return b
}

// tcp4Sum is udp4Sum for a segment.
func tcp4Sum(b []byte) []byte {
	sum4(b)
	s := b[34 : 14+binary.BigEndian.Uint16(b[16:])]
	s[16], s[17] = 0, 0
	binary.BigEndian.PutUint16(s[16:], ^onesComplement(b[26:34], []byte{0, 6}, binary.BigEndian.AppendUint16(nil, uint16(len(s))), s))
	return b
}

func udp6Sum(b []byte) []byte { return sum6(17, 6)(b) }
func icmpSum(b []byte) []byte { return sum6(58, 2)(b) }
func tcp6Sum(b []byte) []byte { return sum6(6, 16)(b) }

// length6 sets the IPv6 payload length to the length of the payload.
func length6(b []byte) []byte {
	binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54))
	return b
}
