// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// ARP for IPv4 on Ethernet (RFC 826).
const (
	arpLen     = 28
	arpFormat  = 1<<48 | etherIPv4<<32 | 6<<24 | 4<<16
	arpRequest = 1
	arpReply   = 2
)

func (n *Neighbor) decodeARP(b []byte) error {
	if len(b) < arpLen {
		return Truncated
	}
	head := binary.BigEndian.Uint64(b)
	switch {
	case head&^0xffff != arpFormat:
		return ARPFormat
	case head&0xffff != arpRequest:
		return ARPOperation
	}
	n.Kind = KindARP
	n.SrcMAC = [6]byte(b[8:])
	n.Sender, n.Target = netip.AddrFrom4([4]byte(b[14:])), netip.AddrFrom4([4]byte(b[24:]))
	return nil
}

func (n *Neighbor) putARP(b []byte, mac [6]byte) {
	sender, target := n.Sender.As4(), n.Target.As4()
	binary.BigEndian.PutUint64(b, arpFormat|arpReply)
	copy(b[8:], mac[:])
	copy(b[14:], target[:])
	copy(b[18:], n.SrcMAC[:])
	copy(b[24:], sender[:])
}
