// SPDX-License-Identifier: Apache-2.0

package openflow

// PacketIn is a packet that the switch hands out (NXT_PACKET_IN2,
// include/openflow/nicira-ext.h). Its slices lie in the message that it was
// decoded from.
type PacketIn struct {
	Data         []byte     // the frame
	FullLen      uint32     // of the frame in bytes; more than len(Data) if it was cut
	InPort       uint32     // 0 if the message does not tell
	Metadata     uint64     // 0 unless the pipeline has set it
	TunID        uint64     // tunnel key; 0 if the packet came through none
	Regs         [16]uint32 // 0 where the pipeline has not set it
	RegsPresent  uint16     // bit n: the message had register n
	Cookie       uint64     // of the flow; of the outermost one for a paused packet
	Table        uint8      // of the flow; 0 for a paused packet
	Reason       uint8      // OFPR_*: 0 a flow of priority 0 without a match, 1 another, 5 a packet-out (1.5 only)
	UserData     []byte     // from Controller2
	Continuation []byte     // opaque; nil unless paused
}

// Paused tells whether the switch waits for the packet to be resumed.
func (p *PacketIn) Paused() bool { return p.Continuation != nil }

// Properties of NXT_PACKET_IN2 (enum nx_packet_in2_prop_type).
const (
	pinPacket       = 0
	pinFullLen      = 1
	pinTableID      = 3
	pinCookie       = 4
	pinReason       = 5
	pinMetadata     = 6
	pinUserData     = 7
	pinContinuation = 8
)

const niciraHeaderLen = 16 // ofp_header, experimenter, subtype

// isPacketIn2 tells whether msg, a whole message, is a packet-in of the only
// format that the package decodes.
func isPacketIn2(msg []byte) bool {
	return len(msg) >= niciraHeaderLen && msg[1] == typeExperimenter &&
		be.Uint32(msg[8:]) == experimenterNicira && be.Uint32(msg[12:]) == nxtPacketIn2
}

// Decode reads a whole NXT_PACKET_IN2 message. It does not allocate; the
// slices of p alias msg. What p held before is gone, on an error too.
func (p *PacketIn) Decode(msg []byte) error {
	*p = PacketIn{}
	h, err := parseHeader(msg)
	if err != nil {
		return err
	}
	if h.length != len(msg) || !isPacketIn2(msg) {
		return malformed("not a packet-in 2: %d bytes of type %d", len(msg), h.typ)
	}
	for b := msg[niciraHeaderLen:]; len(b) > 0; {
		if len(b) < 4 {
			return malformed("packet-in: property of %d bytes", len(b))
		}
		typ, n := be.Uint16(b), int(be.Uint16(b[2:]))
		if n < 4 || n > len(b) {
			return malformed("packet-in: property %d with length %d in %d bytes", typ, n, len(b))
		}
		v := b[4:n:n]
		b = b[min(round8(n), len(b)):]
		switch typ {
		case pinPacket:
			p.Data = v
		case pinFullLen:
			if len(v) != 4 {
				return badProperty(typ, v)
			}
			p.FullLen = be.Uint32(v)
		case pinTableID:
			if len(v) != 1 {
				return badProperty(typ, v)
			}
			p.Table = v[0]
		case pinCookie: // four bytes of padding come first
			if len(v) != 12 {
				return badProperty(typ, v)
			}
			p.Cookie = be.Uint64(v[4:])
		case pinReason:
			if len(v) != 1 {
				return badProperty(typ, v)
			}
			p.Reason = v[0]
		case pinMetadata:
			if err := p.decodeMetadata(v); err != nil {
				return err
			}
		case pinUserData:
			p.UserData = v
		case pinContinuation:
			p.Continuation = v
		}
	}
	if len(p.Data) == 0 {
		return malformed("packet-in without a packet")
	}
	if p.FullLen < uint32(len(p.Data)) {
		p.FullLen = uint32(len(p.Data))
	}
	return nil
}

func badProperty(typ uint16, v []byte) error {
	return malformed("packet-in: property %d with %d bytes", typ, len(v))
}

// decodeMetadata reads the pipeline fields. Masks are of no interest: Open
// vSwitch leaves out what is zero, and masks a half of an xreg that is.
func (p *PacketIn) decodeMetadata(b []byte) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return malformed("packet-in: OXM header of %d bytes", len(b))
		}
		class, id := be.Uint16(b), b[2]>>1
		n := 4 + int(b[3])
		if n > len(b) {
			return malformed("packet-in: OXM field %#x/%d of %d bytes where %d are left", class, id, n, len(b))
		}
		v := b[4:n]
		masked := b[2]&1 != 0
		if masked {
			if len(v)%2 != 0 {
				return malformed("packet-in: masked OXM field %#x/%d of %d bytes", class, id, len(v))
			}
			v = v[:len(v)/2]
		}
		switch {
		case class == classNXM1 && id < 16 && len(v) == 4:
			p.Regs[id] = be.Uint32(v)
			p.RegsPresent |= 1 << id
		case class == classPacketRegs && id < 8 && len(v) == 8:
			p.setXReg(int(id)*2, v, b[4+len(v):n])
		case class == classBasic && id == oxmInPort && len(v) == 4:
			p.InPort = be.Uint32(v)
		case class == classBasic && id == oxmMetadata && len(v) == 8:
			p.Metadata = be.Uint64(v)
		case class == classBasic && id == oxmTunnelID && len(v) == 8,
			class == classNXM1 && id == nxmTunID && len(v) == 8:
			p.TunID = be.Uint64(v)
		case class == classNXM1 && id >= nxmXXReg0 && id < nxmXXReg0+4 && len(v) == 16:
			first, mask := 4*int(id-nxmXXReg0), b[4+len(v):n]
			p.setXReg(first, v[:8], mask[:len(mask)/2])
			p.setXReg(first+2, v[8:], mask[len(mask)/2:])
		}
		b = b[n:]
	}
	return nil
}

// setXReg sets two registers from one of 64 bits; mask is empty or 8 bytes.
func (p *PacketIn) setXReg(n int, v, mask []byte) {
	for i := range 2 {
		if len(mask) == 8 && be.Uint32(mask[4*i:]) == 0 {
			continue
		}
		p.Regs[n+i] = be.Uint32(v[4*i:])
		p.RegsPresent |= 1 << (n + i)
	}
}

// AppendResume encodes the message that gives a paused packet back to the
// switch (NXT_RESUME): the received NXT_PACKET_IN2 message itself under a new
// xid. Each packet may be resumed once only, which the switch does not check.
func AppendResume(b, msg []byte, xid uint32) ([]byte, error) {
	if !isPacketIn2(msg) || int(be.Uint16(msg[2:])) != len(msg) {
		return b, malformed("resume: not a packet-in 2")
	}
	start := len(b)
	b = append(b, msg...)
	be.PutUint32(b[start+4:], xid)
	be.PutUint32(b[start+12:], nxtResume)
	return b, nil
}
