// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"fmt"
	"net/netip"
)

// PacketIn is a packet that the switch sends to a controller (NXT_PACKET_IN2,
// include/openflow/nicira-ext.h). Its slices are parts of the message that it was
// decoded from.
type PacketIn struct {
	Data     []byte     // the frame
	FullLen  uint32     // of the frame in bytes; more than len(Data) if it was cut
	InPort   uint32     // 0 if the message does not tell
	Metadata uint64     // 0 unless the pipeline has set it
	PktMark  uint32     // 0 unless the pipeline has set it
	Regs     [16]uint32 // 0 where the pipeline has not set it
	Cookie   uint64     // of the flow
	Table    uint8      // of the flow
	Reason   uint8      // OFPR_*: 0 a flow of priority 0 without a match, 1 another, 5 a packet-out (1.5 only)
	CT       CTTuple    // of connection tracking
	UserData []byte     // from Controller2
}

// CTTuple is what connection tracking says of a packet: its state, and where the first
// packet of its connection was sent, before any translation of addresses (ovs-fields(7),
// "Connection Tracking Fields"). All of it is zero for a packet that is not tracked.
type CTTuple struct {
	State uint32     // bits CT*
	Proto uint8      // IP protocol
	Dst   netip.Addr // invalid if the message does not tell
	Port  uint16     // destination port of UDP and TCP
}

// Bits of the state of a tracked packet.
const (
	CTNew         = 0x01 // of a connection that is not committed
	CTEstablished = 0x02 // of a committed one with packets both ways
	CTRelated     = 0x04 // about another connection, as an ICMP error is
	CTReply       = 0x08 // in the direction against that of the first packet
	CTInvalid     = 0x10 // of none
	CTTracked     = 0x20 // has been through connection tracking
	CTSrcNAT      = 0x40 // the source has been rewritten
	CTDstNAT      = 0x80 // the destination has been rewritten
)

// Properties of NXT_PACKET_IN2 (enum nx_packet_in2_prop_type).
const (
	pinPacket   = 0
	pinFullLen  = 1
	pinTableID  = 3
	pinCookie   = 4
	pinReason   = 5
	pinMetadata = 6
	pinUserData = 7
)

const (
	niciraHeaderLen   = 16 // ofp_header, experimenter, subtype
	propertyHeaderLen = 4  // type, length
)

// isPacketIn2 reports whether msg, a whole message, is a packet-in of the only
// format that the package decodes.
func isPacketIn2(msg []byte) bool {
	return len(msg) >= niciraHeaderLen && msg[1] == typeExperimenter &&
		be.Uint32(msg[8:]) == experimenterNicira && be.Uint32(msg[12:]) == nxtPacketIn2
}

// Decode decodes a whole NXT_PACKET_IN2 message. It does not allocate; the
// slices of p alias msg. It overwrites p, on an error too. The error wraps ErrMalformed.
func (p *PacketIn) Decode(msg []byte) error {
	*p = PacketIn{}
	h, err := parseHeader(msg)
	if err != nil {
		return err
	}
	if h.length != len(msg) || !isPacketIn2(msg) {
		return malformed("not a packet-in 2: %d bytes of type %d", len(msg), h.typ)
	}
	if err := p.decodeProperties(msg[niciraHeaderLen:]); err != nil {
		return err
	}
	if len(p.Data) == 0 {
		return malformed("packet-in without a packet")
	}
	if p.FullLen < uint32(len(p.Data)) {
		p.FullLen = uint32(len(p.Data))
	}
	return nil
}

// decodeProperties reads what follows the header. Properties that are not known are
// skipped.
func (p *PacketIn) decodeProperties(b []byte) error {
	for len(b) > 0 {
		n, ok := propertyLen(b)
		if !ok {
			return badPropertyLen(b)
		}
		typ, v := be.Uint16(b), b[propertyHeaderLen:n:n]
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
		}
	}
	return nil
}

// propertyLen returns the length in bytes of the property at the start of b, without
// the padding behind it. It reports whether b has that many.
func propertyLen(b []byte) (n int, ok bool) {
	if len(b) < propertyHeaderLen {
		return 0, false
	}
	n = int(be.Uint16(b[2:]))
	return n, n >= propertyHeaderLen && n <= len(b)
}

// badPropertyLen is the error where propertyLen reports false.
func badPropertyLen(b []byte) error {
	if len(b) < propertyHeaderLen {
		return malformed("packet-in: property of %d bytes", len(b))
	}
	return malformed("packet-in: property %d with length %d in %d bytes", be.Uint16(b), be.Uint16(b[2:]), len(b))
}

// Own copies the slices of p, which are valid during the call of the packet-in's handler only.
func (p *PacketIn) Own() { p.Data, p.UserData = bytes.Clone(p.Data), bytes.Clone(p.UserData) }

// decodeMetadata reads the pipeline fields. It ignores masks: Open vSwitch leaves out fields that are zero,
// and masks a half of an xreg that is zero.
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
		v, mask := b[4:n], b[n:n]
		if masked := b[2]&1 != 0; masked {
			if len(v)%2 != 0 {
				return malformed("packet-in: masked OXM field %#x/%d of %d bytes", class, id, len(v))
			}
			v, mask = v[:len(v)/2], v[len(v)/2:]
		}
		switch class {
		case classBasic:
			p.setBasic(id, v)
		case classPacketRegs:
			if id < 8 && len(v) == 8 {
				p.setXReg(2*int(id), v, mask)
			}
		case classNXM1:
			p.setNXM1(id, v, mask)
		}
		b = b[n:]
	}
	return nil
}

// setBasic sets a field of class OpenFlow basic.
func (p *PacketIn) setBasic(id uint8, v []byte) {
	switch {
	case id == oxmInPort && len(v) == 4:
		p.InPort = be.Uint32(v)
	case id == oxmMetadata && len(v) == 8:
		p.Metadata = be.Uint64(v)
	}
}

// setNXM1 sets a field of class NXM 1; mask is empty or as long as v.
func (p *PacketIn) setNXM1(id uint8, v, mask []byte) {
	switch {
	case id < 16 && len(v) == 4:
		p.Regs[id] = be.Uint32(v)
	case id == nxmPktMark && len(v) == 4:
		p.PktMark = be.Uint32(v)
	case id == nxmCTState && len(v) == 4:
		p.CT.State = be.Uint32(v)
	case id == nxmCTNWProto && len(v) == 1:
		p.CT.Proto = v[0]
	case id == nxmCTNWDst && len(v) == 4:
		p.CT.Dst = netip.AddrFrom4([4]byte(v))
	case id == nxmCTIPv6Dst && len(v) == 16:
		p.CT.Dst = netip.AddrFrom16([16]byte(v))
	case id == nxmCTTPDst && len(v) == 2:
		p.CT.Port = be.Uint16(v)
	case id >= nxmXXReg0 && id < nxmXXReg0+4 && len(v) == 16:
		first := 4 * int(id-nxmXXReg0)
		p.setXReg(first, v[:8], mask[:len(mask)/2])
		p.setXReg(first+2, v[8:], mask[len(mask)/2:])
	}
}

// setXReg sets two registers from one of 64 bits; mask is empty or 8 bytes.
func (p *PacketIn) setXReg(n int, v, mask []byte) {
	for i := range 2 {
		if len(mask) == 8 && be.Uint32(mask[4*i:]) == 0 {
			continue
		}
		p.Regs[n+i] = be.Uint32(v[4*i:])
	}
}

// AppendResume encodes the PACKET_OUT message by which the packet of p goes on in a table, with the
// metadata, registers and mark that it had. Connection tracking has to be asked anew there: no
// message can give a packet the state that it had.
func (p *PacketIn) AppendResume(b []byte, v Version, xid uint32, table uint8) ([]byte, error) {
	var room [resumeRoom]byte
	actions := room[:0]
	if p.Metadata != 0 {
		actions = SetField{Metadata(p.Metadata)}.append(actions, v)
	}
	if p.PktMark != 0 {
		actions = SetField{PktMark(p.PktMark)}.append(actions, v)
	}
	for n, value := range p.Regs {
		if value != 0 {
			actions = SetField{Reg(n, value)}.append(actions, v)
		}
	}
	actions = Resubmit{Table: table}.append(actions, v)
	b, err := AppendPacketOut(b, v, xid, p.InPort, actions, p.Data)
	if err != nil {
		return b, fmt.Errorf("resume: %w", err)
	}
	return b, nil
}

// resumeRoom is enough for the actions of a resume: 18 fields and a resubmit of 16 bytes each.
const resumeRoom = 19 * 16

func badProperty(typ uint16, v []byte) error {
	return malformed("packet-in: property %d with %d bytes", typ, len(v))
}
