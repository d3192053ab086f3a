// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

const udpLen = 8

// UDP is a UDP datagram in an Ethernet frame.
type UDP struct {
	Ends
	Payload []byte // aliases the frame
}

// Decode decodes Ethernet II with at most one IEEE 802.1Q tag, IP, and UDP (RFC 768). IPv4 may have options, IPv6
// hop-by-hop, destination options, routing and atomic fragment headers. The error is a [Refusal].
//
// As in Linux and OVS, UDP options (RFC 9868) may follow the UDP length. A checksum is optional in IPv4 only (RFC
// 8200 section 8.1). A checksum of the pseudo header alone is valid: virtual interfaces leave the rest to hardware,
// which a software switch lacks.
func (u *UDP) Decode(b []byte) error {
	var ends Ends
	c, err := ends.decode(b, protoUDP)
	if err != nil {
		return err
	}
	if len(c.bytes) < udpLen {
		return UDPLength
	}
	length := int(binary.BigEndian.Uint16(c.bytes[4:]))
	if length < udpLen || length > len(c.bytes) {
		return UDPLength
	}
	d := c.bytes[:length:length]
	if field := binary.BigEndian.Uint16(d[6:]); field == 0 && !c.ipv4 || field != 0 && !isChecksumValid(d, field, protoUDP, c.pseudo) {
		return UDPChecksum
	}
	if err := ends.setPorts(binary.BigEndian.Uint16(d), binary.BigEndian.Uint16(d[2:])); err != nil {
		return err
	}
	*u = UDP{ends, d[udpLen:]}
	return nil
}

// AppendDatagram appends to dst a reply from the destination of e to its source, with the VLAN tag of e if tagged.
// The packet has TTL or hop limit 64, no options, and DF in IPv4. AppendDatagram does not allocate if dst, which
// must not overlap payload, has room. On [ErrPayload] and [ErrAddresses] it returns dst unchanged.
func (e *Ends) AppendDatagram(dst, payload []byte, tagged bool) ([]byte, error) {
	dst, d, pseudo, err := e.appendReply(dst, tagged, protoUDP, udpLen+len(payload))
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint16(d, e.Dst.Port())
	binary.BigEndian.PutUint16(d[2:], e.Src.Port())
	binary.BigEndian.PutUint32(d[4:], uint32(len(d))<<16)
	copy(d[udpLen:], payload)
	check := ^fold(sum(add(pseudo, protoUDP+uint32(len(d))), d))
	if check == 0 {
		// 0 means no checksum (RFC 768).
		check = 0xffff
	}
	binary.BigEndian.PutUint16(d[6:], check)
	return dst, nil
}
