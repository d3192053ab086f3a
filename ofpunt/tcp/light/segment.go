// SPDX-License-Identifier: Apache-2.0

package light

import (
	"encoding/binary"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// Segment is a segment to send. The zero value is no segment.
type Segment struct {
	Flags    header.TCPFlags
	Seq, Ack uint32
	// Payload is immutable.
	Payload []byte
	// options of a SYN
	syn        [maxOptions]byte
	optionsLen uint8
}

// bytes of MSS, window scale, SACK permitted, and NOPs
const maxOptions = 12

// Append appends the segment to dst, without ports and checksum.
func (s *Segment) Append(dst []byte) []byte {
	const words = 4 // bytes
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, s.Seq)
	dst = binary.BigEndian.AppendUint32(dst, s.Ack)
	window := uint16(Window)
	if s.Flags&rst != 0 {
		window = 0
	}
	dst = append(dst, (header.TCPMinimumSize+s.optionsLen)/words<<4, byte(s.Flags), byte(window>>8), byte(window), 0, 0, 0, 0)
	dst = append(dst, s.syn[:s.optionsLen]...)
	return append(dst, s.Payload...)
}

// synAck has the options of gVisor.
func (c *Conn) synAck() Segment {
	s := Segment{Flags: syn | ack, Seq: c.first, Ack: c.next}
	n := header.EncodeMSSOption(MSS, s.syn[:])
	if c.sack {
		n += header.EncodeNOP(s.syn[n:])
		n += header.EncodeNOP(s.syn[n:])
		n += header.EncodeSACKPermittedOption(s.syn[n:])
	}
	if c.scale >= 0 {
		n += header.EncodeNOP(s.syn[n:])
		n += header.EncodeWSOption(0, s.syn[n:])
	}
	s.optionsLen = uint8(n)
	return s
}

func (c *Conn) acknowledgement() Segment {
	return Segment{Flags: ack, Seq: c.unsent, Ack: c.next}
}

// outstanding returns the unacknowledged data, or an ACK.
func (c *Conn) outstanding() Segment {
	if !c.established {
		return c.acknowledgement()
	}
	s := c.acknowledgement()
	if c.una == c.unsent {
		return s
	}
	s.Seq = c.una
	if c.response != nil {
		s.Flags |= psh
		s.Payload = c.response[c.una-c.responseAt:]
	}
	if c.sentFin {
		s.Flags |= fin
	}
	return s
}
