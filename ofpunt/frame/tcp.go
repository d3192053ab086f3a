// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

const tcpLen = 20

// TCP is a TCP segment in an Ethernet frame.
type TCP struct {
	Ends
	Segment []byte // TCP header and payload; part of the decoded frame, not a copy
}

// Decode decodes the segment in b: Ethernet and IP headers as in [UDP.Decode],
// and TCP (RFC 9293, section 3.1), of which it checks the length of the header
// and the checksum. As there, a checksum of the pseudo header alone is accepted. The error
// is a [Refusal].
func (t *TCP) Decode(b []byte) error {
	var ends Ends
	c, err := ends.decode(b, protoTCP)
	if err != nil {
		return err
	}
	s := c.bytes[:len(c.bytes):len(c.bytes)]
	if len(s) < tcpLen {
		return TCPLength
	}
	if header := int(s[12]>>4) * 4; header < tcpLen || header > len(s) {
		return TCPLength
	}
	if !isChecksumValid(s, binary.BigEndian.Uint16(s[16:]), protoTCP, c.pseudo) {
		return TCPChecksum
	}
	if err := ends.setPorts(binary.BigEndian.Uint16(s), binary.BigEndian.Uint16(s[2:])); err != nil {
		return err
	}
	*t = TCP{ends, s}
	return nil
}

// AppendSegment appends to dst the frame that answers with segment, a TCP header and
// payload, as [Ends.AppendDatagram] does with a datagram. Its ports and its checksum are
// replaced by the right ones.
//
// The error is [ErrPayload] or [ErrAddresses], or [TCPLength] for a segment without a
// whole header; dst is then returned as it was.
func (e *Ends) AppendSegment(dst, segment []byte, tagged bool) ([]byte, error) {
	if len(segment) < tcpLen {
		return dst, TCPLength
	}
	dst, s, pseudo, err := e.appendReply(dst, tagged, protoTCP, len(segment))
	if err != nil {
		return dst, err
	}
	copy(s, segment)
	binary.BigEndian.PutUint16(s, e.Dst.Port())
	binary.BigEndian.PutUint16(s[2:], e.Src.Port())
	binary.BigEndian.PutUint16(s[16:], 0)
	binary.BigEndian.PutUint16(s[16:], ^fold(sum(add(pseudo, protoTCP+uint32(len(s))), s)))
	return dst, nil
}
