// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

const tcpLen = 20

// TCP is a TCP segment in an Ethernet frame.
type TCP struct {
	Ends
	Segment []byte // TCP header and payload, aliasing the frame
}

// Decode decodes b as [UDP.Decode] does, and checks TCP header length and checksum (RFC 9293, section 3.1). The
// error is a [Refusal].
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

// AppendSegment is [Ends.AppendDatagram] for a TCP header and payload. It sets ports and checksum. On [ErrPayload],
// [ErrAddresses], or [TCPLength] without a whole header, it returns dst unchanged.
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
