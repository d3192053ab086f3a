// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"fmt"
	"net/netip"
)

// PacketIn is a packet from the switch (NXT_PACKET_IN2, include/openflow/nicira-ext.h). Its slices alias the
// message.
type PacketIn struct {
	Data     []byte // the frame
	FullLen  uint32 // above len(Data) if truncated
	InPort   uint32 // 0 if not in the message
	Metadata uint64
	PktMark  uint32
	Regs     [16]uint32
	Cookie   uint64 // of the flow
	Table    uint8  // of the flow
	Reason   uint8  // OFPR_*: 0 a flow of priority 0 without a match, 1 another flow, 5 a packet-out (1.5 only)
	CT       CTTuple
	UserData []byte // from Controller2
}

// CTTuple is the conntrack state, and the connection's first destination before NAT (ovs-fields(7), "Connection
// Tracking Fields"). It is zero if untracked.
type CTTuple struct {
	State uint32     // bits CT*
	Proto uint8      // IP protocol
	Dst   netip.Addr // invalid if not in the message
	Port  uint16     // of UDP and TCP
}

// Bits of CTTuple.State.
const (
	CTNew         = 0x01 // uncommitted connection
	CTEstablished = 0x02 // committed connection with packets both ways
	CTRelated     = 0x04 // about another connection, such as an ICMP error
	CTReply       = 0x08 // reply direction
	CTInvalid     = 0x10 // no connection
	CTTracked     = 0x20
	CTSrcNAT      = 0x40
	CTDstNAT      = 0x80
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

// isPacketIn2 reports whether msg is an NXT_PACKET_IN2.
func isPacketIn2(msg []byte) bool {
	return len(msg) >= niciraHeaderLen && msg[1] == typeExperimenter &&
		be.Uint32(msg[8:]) == experimenterNicira && be.Uint32(msg[12:]) == nxtPacketIn2
}

// Decode decodes a whole message without allocating. It overwrites p even on an error, which wraps ErrMalformed.
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

// decodeProperties skips unknown properties.
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
		case pinCookie: // after four bytes of padding
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

// propertyLen returns the unpadded length, and whether b has that many bytes.
func propertyLen(b []byte) (n int, ok bool) {
	if len(b) < propertyHeaderLen {
		return 0, false
	}
	n = int(be.Uint16(b[2:]))
	return n, n >= propertyHeaderLen && n <= len(b)
}

func badPropertyLen(b []byte) error {
	if len(b) < propertyHeaderLen {
		return malformed("packet-in: property of %d bytes", len(b))
	}
	return malformed("packet-in: property %d with length %d in %d bytes", be.Uint16(b), be.Uint16(b[2:]), len(b))
}

// Own copies the slices, which alias the message.
func (p *PacketIn) Own() { p.Data, p.UserData = bytes.Clone(p.Data), bytes.Clone(p.UserData) }

// decodeMetadata ignores masks: OVS omits zero fields, and masks a zero half of an xreg.
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

func (p *PacketIn) setBasic(id uint8, v []byte) {
	switch {
	case id == oxmInPort && len(v) == 4:
		p.InPort = be.Uint32(v)
	case id == oxmMetadata && len(v) == 8:
		p.Metadata = be.Uint64(v)
	}
}

// mask is empty or as long as v.
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

// mask is empty or 8 bytes.
func (p *PacketIn) setXReg(n int, v, mask []byte) {
	for i := range 2 {
		if len(mask) == 8 && be.Uint32(mask[4*i:]) == 0 {
			continue
		}
		p.Regs[n+i] = be.Uint32(v[4*i:])
	}
}

// AppendResume encodes the PACKET_OUT that continues the packet in a table with its metadata, registers and mark.
// The table must repeat connection tracking: no message can restore its state.
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

// 18 fields and a resubmit of 16 bytes each
const resumeRoom = 19 * 16

func badProperty(typ uint16, v []byte) error {
	return malformed("packet-in: property %d with %d bytes", typ, len(v))
}
