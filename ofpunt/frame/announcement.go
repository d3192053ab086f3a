// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// RFC 903, in the format of ARP.
const (
	etherRARP   = 0x8035
	rarpRequest = 3
)

var broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AppendAnnouncement appends a broadcast frame to dst, from which switches learn where mac is. It is a RARP
// request, as of hypervisors after a migration. Unlike gratuitous ARP it names no IP address, so it changes no
// neighbour entry.
func AppendAnnouncement(dst []byte, mac [6]byte, tag Tag) []byte {
	dst, b := extend(dst, tag.len()+arpLen)
	b = putLink(b, broadcastMAC, mac, tag, etherRARP)
	clear(b)
	binary.BigEndian.PutUint64(b, arpFormat|rarpRequest)
	copy(b[8:], mac[:])
	copy(b[18:], mac[:])
	return dst
}
