// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// etherRARP and rarpRequest are from RFC 903, which takes the format from ARP.
const (
	etherRARP   = 0x8035
	rarpRequest = 3
)

var broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AppendAnnouncement appends to dst a broadcast frame from mac, with a tag or without, and returns
// the longer slice. The switches on its way learn where mac is. The frame is a RARP request, which
// hypervisors send for a machine that has moved. It names no IP address, so that it changes no
// neighbour entry: a gratuitous ARP would change the entries of all hosts.
func AppendAnnouncement(dst []byte, mac [6]byte, tag Tag) []byte {
	dst, b := extend(dst, tag.len()+arpLen)
	b = putLink(b, broadcastMAC, mac, tag, etherRARP)
	clear(b)
	binary.BigEndian.PutUint64(b, arpFormat|rarpRequest)
	copy(b[8:], mac[:])
	copy(b[18:], mac[:])
	return dst
}
