// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

const udpLen = 8

// UDP is a UDP datagram in an Ethernet frame.
type UDP struct {
	Ends
	Payload []byte // part of the decoded frame, not a copy
}

// Decode decodes the datagram in b: Ethernet II with at most one IEEE 802.1Q tag,
// IPv4 with options or IPv6 with hop-by-hop, destination options, routing and
// atomic fragment headers, and UDP (RFC 768). The error is a [Refusal].
//
// A UDP length below that of the IP packet is accepted, as by Linux and Open vSwitch;
// the surplus may be UDP options (RFC 9868).
//
// A checksum is optional in IPv4 only (RFC 8200 section 8.1). One that covers
// the pseudo header alone is accepted: virtual interfaces leave the rest to hardware,
// and between guests of a software switch there is none.
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

// AppendDatagram appends to dst the frame that answers with a datagram of payload,
// and returns the longer slice. Sources and destinations are swapped. The frame has the
// tag of e if tagged; without it the switch may push one. The packet has no options, TTL
// or hop limit 64, and in IPv4 don't fragment. Nothing is allocated if dst has room;
// payload must not be in that room.
//
// The error is [ErrPayload] or [ErrAddresses]; dst is then returned as it was.
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
		// A checksum of 0 means that there is none (RFC 768).
		check = 0xffff
	}
	binary.BigEndian.PutUint16(d[6:], check)
	return dst, nil
}
