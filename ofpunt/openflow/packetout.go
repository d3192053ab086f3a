// SPDX-License-Identifier: Apache-2.0

package openflow

import "fmt"

// AppendPacketOut encodes a PACKET_OUT with actions of AppendActions. inPort is a port or PortController. It does
// not allocate if b has room. On an error it returns b unchanged.
func AppendPacketOut(b []byte, v Version, xid, inPort uint32, actions, data []byte) ([]byte, error) {
	if n := len(actions) + len(data); n > maxMessage-packetOutRoom {
		return b, fmt.Errorf("packet-out: %w", ErrTooLong)
	}
	start := len(b)
	b = appendHeader(b, v, typePacketOut, xid)
	b = be.AppendUint32(b, noBuffer)
	if v >= V15 {
		b = be.AppendUint16(b, uint16(len(actions)))
		// Padding, then a padded match on in_port.
		b = append(b, 0, 0, 0, 1, 0, 12, classBasic>>8, classBasic&0xff, oxmInPort<<1, 4)
		b = be.AppendUint32(b, inPort)
		b = append(b, 0, 0, 0, 0)
	} else {
		b = be.AppendUint32(b, inPort)
		b = be.AppendUint16(b, uint16(len(actions)))
		b = append(b, 0, 0, 0, 0, 0, 0)
	}
	b = append(b, actions...)
	b = append(b, data...)
	return closeMessage(b, start), nil
}

// above the length before actions and data
const packetOutRoom = 40
