// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"fmt"
	"strconv"
	"strings"
)

// Action is an action of a flow or a packet-out, of this package only.
type Action interface {
	append(b []byte, v Version) []byte
	fmt.Stringer
}

// Action types (OpenFlow 1.5.1, 7.2.6.1, ofp_action_type) and Nicira subtypes (OVS lib/ofp-actions.c).
const (
	actOutput       = 0
	actPushVLAN     = 17
	actPopVLAN      = 18
	actSetField     = 25
	actCopyField    = 28 // 1.5
	actExperimenter = 0xffff

	nxastRegMove       = 6 // up to 1.4
	nxastNote          = 8
	nxastResubmitTable = 14
	nxastRegLoad2      = 33 // up to 1.4
	nxastCT            = 35
	nxastNAT           = 36 // within NXAST_CT
	nxastController2   = 37
)

// Output sends the packet out of a port.
type Output struct{ Port uint32 }

// Controller2 sends the packet to the connections with ControllerID (NXAST_CONTROLLER2).
type Controller2 struct {
	ControllerID uint16
	UserData     []byte // in the packet-in; OVS takes less than 252 bytes
	// Meter limits the packet-ins, 0 for none. The switch ignores a meter that is unknown when the flow is added.
	Meter uint32
}

// Resubmit runs another table (NXAST_RESUBMIT_TABLE).
type Resubmit struct {
	Table  uint8
	InPort uint16 // for the lookup; 0 keeps the packet's own
}

// PushVLAN pushes an empty 802.1Q tag.
type PushVLAN struct{}

// PopVLAN pops the outer tag.
type PopVLAN struct{}

// SetVLAN sets the outer VLAN id, 0 to 4095.
type SetVLAN struct{ VID uint16 }

// SetField sets a field, or its masked bits.
type SetField struct{ Field Field }

// Move copies bits from Src to Dst; bit 0 is the least significant. Field values are ignored.
type Move struct {
	Src, Dst       Field
	SrcOfs, DstOfs uint16
	Bits           uint16
}

// CT runs an IP packet through connection tracking (NXAST_CT), without commit or recirculation. The 16 bits of
// ZoneField from ZoneOfs are the zone if set, such as OVN's Reg(13, 0). NAT rewrites addresses as for other packets
// of the connection.
type CT struct {
	Zone      uint16
	ZoneField Field
	ZoneOfs   uint8
	NAT       bool
}

// Note stores text with a flow (NXAST_NOTE), for [NoteOf].
type Note struct{ Text string }

// AppendActions encodes actions for AppendPacketOut.
func AppendActions(b []byte, v Version, actions ...Action) []byte {
	for _, a := range actions {
		b = a.append(b, v)
	}
	return b
}

func appendNicira(b []byte, length, subtype uint16) []byte {
	b = be.AppendUint16(b, actExperimenter)
	b = be.AppendUint16(b, length)
	b = be.AppendUint32(b, experimenterNicira)
	return be.AppendUint16(b, subtype)
}

// endAction pads the action at b[start:] and sets its length. An overflow also exceeds the message, which
// endMessage reports.
func endAction(b []byte, start int) []byte {
	b = pad8(b, start)
	be.PutUint16(b[start+2:], uint16(len(b)-start))
	return b
}

func (a Output) append(b []byte, _ Version) []byte {
	b = append(b, 0, actOutput, 0, 16)
	b = be.AppendUint32(b, a.Port)
	maxLen := uint16(0)
	if a.Port == PortController {
		maxLen = 0xffff
	}
	b = be.AppendUint16(b, maxLen)
	return append(b, 0, 0, 0, 0, 0, 0)
}

const (
	controller2ID       = 1
	controller2UserData = 3
	controller2Meter    = 5
)

func (a Controller2) append(b []byte, _ Version) []byte {
	start := len(b)
	b = appendNicira(b, 0, nxastController2)
	b = append(b, 0, 0, 0, 0, 0, 0)
	if a.ControllerID != 0 { // as OVS does, so that its answers compare equal
		b = append(b, 0, controller2ID, 0, 8, byte(a.ControllerID>>8), byte(a.ControllerID), 0, 0)
	}
	if len(a.UserData) > 0 {
		prop := len(b)
		b = append(b, 0, controller2UserData)
		b = be.AppendUint16(b, uint16(4+len(a.UserData)))
		b = append(b, a.UserData...)
		b = pad8(b, prop)
	}
	if a.Meter != 0 {
		b = append(b, 0, controller2Meter, 0, 8)
		b = be.AppendUint32(b, a.Meter)
	}
	return endAction(b, start)
}

func (a Resubmit) append(b []byte, _ Version) []byte {
	inPort := a.InPort
	if inPort == 0 {
		inPort = 0xfff8 // OFPP_IN_PORT in 16 bits
	}
	b = appendNicira(b, 16, nxastResubmitTable)
	b = be.AppendUint16(b, inPort)
	return append(b, a.Table, 0, 0, 0)
}

func (PushVLAN) append(b []byte, _ Version) []byte {
	return append(b, 0, actPushVLAN, 0, 8, 0x81, 0x00, 0, 0)
}

func (PopVLAN) append(b []byte, _ Version) []byte {
	return append(b, 0, actPopVLAN, 0, 8, 0, 0, 0, 0)
}

func (a SetVLAN) append(b []byte, v Version) []byte {
	return SetField{VLANID(a.VID)}.append(b, v)
}

func (a SetField) append(b []byte, v Version) []byte {
	start := len(b)
	if a.Field.masked && v < V15 {
		// 1.3 has no masks in set_field.
		b = appendNicira(b, 0, nxastRegLoad2)
	} else {
		b = append(b, 0, actSetField, 0, 0)
	}
	b = a.Field.append(b)
	return endAction(b, start)
}

func (a Move) append(b []byte, v Version) []byte {
	start := len(b)
	if v < V15 {
		b = appendNicira(b, 0, nxastRegMove)
	} else {
		b = append(b, 0, actCopyField, 0, 0)
	}
	b = be.AppendUint16(b, a.Bits)
	b = be.AppendUint16(b, a.SrcOfs)
	b = be.AppendUint16(b, a.DstOfs)
	if v >= V15 {
		b = append(b, 0, 0)
	}
	b = be.AppendUint32(b, a.Src.header())
	b = be.AppendUint32(b, a.Dst.header())
	return endAction(b, start)
}

func (a CT) append(b []byte, _ Version) []byte {
	src, zone := uint32(0), a.Zone
	if a.ZoneField != (Field{}) {
		src, zone = a.ZoneField.header(), uint16(a.ZoneOfs)<<6|15
	}
	start := len(b)
	b = appendNicira(b, 0, nxastCT)
	b = append(b, 0, 0) // flags: no commit
	b = be.AppendUint32(b, src)
	b = be.AppendUint16(b, zone)
	b = append(b, 0xff, 0, 0, 0, 0, 0) // NX_CT_RECIRC_NONE, no ALG
	if a.NAT {
		b = appendNicira(b, 16, nxastNAT)
		b = append(b, 0, 0, 0, 0, 0, 0) // neither flags nor a range
	}
	return endAction(b, start)
}

func (a Note) append(b []byte, _ Version) []byte {
	start := len(b)
	b = appendNicira(b, 0, nxastNote)
	b = append(b, a.Text...)
	return endAction(b, start)
}

func (a Output) String() string { return "output:" + portName(a.Port) }

func (a Controller2) String() string {
	s := fmt.Sprintf("controller(id=%d", a.ControllerID)
	if len(a.UserData) > 0 {
		s += fmt.Sprintf(",userdata=% x", a.UserData)
		s = strings.ReplaceAll(s, " ", ".")
	}
	if a.Meter != 0 {
		s += fmt.Sprintf(",meter_id=%d", a.Meter)
	}
	return s + ")"
}

func (a Resubmit) String() string {
	if a.InPort == 0 {
		return fmt.Sprintf("resubmit(,%d)", a.Table)
	}
	return fmt.Sprintf("resubmit(%d,%d)", a.InPort, a.Table)
}

func (PushVLAN) String() string { return "push_vlan:0x8100" }
func (PopVLAN) String() string  { return "pop_vlan" }
func (a SetVLAN) String() string {
	return fmt.Sprintf("set_field:%d->vlan_vid", vlanPresent|a.VID&0xfff)
}

func (a SetField) String() string {
	value, mask := a.Field.payload()
	s := "set_field:" + a.Field.format(value)
	if a.Field.masked {
		s += "/" + a.Field.format(mask)
	}
	return s + "->" + a.Field.Name()
}

func bits(f Field, ofs, n uint16) string {
	return fmt.Sprintf("%s[%d..%d]", f.Name(), ofs, int(ofs)+int(n)-1)
}

func (a Move) String() string {
	return "move:" + bits(a.Src, a.SrcOfs, a.Bits) + "->" + bits(a.Dst, a.DstOfs, a.Bits)
}

func (a Note) String() string { return fmt.Sprintf("note:%q", a.Text) }

func (a CT) String() string {
	zone := strconv.Itoa(int(a.Zone))
	if a.ZoneField != (Field{}) {
		zone = bits(a.ZoneField, uint16(a.ZoneOfs), 16)
	}
	if a.NAT {
		zone += ",nat"
	}
	return "ct(zone=" + zone + ")"
}
