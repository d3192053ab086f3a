// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Field is an OXM or NXM match field with value and mask (OpenFlow 1.5.1, 7.2.3.2;
// include/openvswitch/meta-flow.h). Fields are comparable. The zero Field is no field.
type Field struct {
	class  uint16
	id     uint8
	masked bool
	size   uint8  // of value and mask each, in bytes
	vendor uint32 // of class 0xffff, else 0
	value  [16]byte
	mask   [16]byte
	long   string // value and mask above 16 bytes
}

const (
	classNXM0         = 0x0000
	classNXM1         = 0x0001
	classBasic        = 0x8000
	classPacketRegs   = 0x8001
	classExperimenter = 0xffff
)

// Fields of class OpenFlow basic.
const (
	oxmInPort     = 0
	oxmMetadata   = 2
	oxmEthDst     = 3
	oxmEthSrc     = 4
	oxmEthType    = 5
	oxmVLANVID    = 6
	oxmVLANPCP    = 7
	oxmIPECN      = 9
	oxmIPProto    = 10
	oxmIPv4Src    = 11
	oxmIPv4Dst    = 12
	oxmTCPSrc     = 13
	oxmTCPDst     = 14
	oxmUDPSrc     = 15
	oxmUDPDst     = 16
	oxmSCTPDst    = 18
	oxmARPOp      = 21
	oxmARPSPA     = 22
	oxmARPTPA     = 23
	oxmARPSHA     = 24
	oxmARPTHA     = 25
	oxmIPv6Src    = 26
	oxmIPv6Dst    = 27
	oxmIPv6Label  = 28
	oxmICMPv6Type = 29
	oxmICMPv6Code = 30
	oxmNDTarget   = 31
	oxmNDSLL      = 32
	oxmNDTLL      = 33
	oxmTunnelID   = 38
	oxmTCPFlags   = 42
)

// Fields of class NXM 1.
const (
	nxmReg0    = 0 // to 15
	nxmTunID   = 16
	nxmIPFrag  = 26
	nxmPktMark = 33
	nxmCTState = 105
	nxmCTZone  = 106
	nxmCTMark  = 107
	nxmCTLabel = 108
	nxmXXReg0  = 111 // to 114

	// Original direction tuple of conntrack.
	nxmCTNWProto = 119
	nxmCTNWDst   = 121
	nxmCTIPv6Dst = 123
	nxmCTTPDst   = 125
)

// vlanPresent is the bit of OXM_OF_VLAN_VID in a tagged frame.
const vlanPresent = 0x1000

func field(class uint16, id uint8, value []byte) Field {
	f := Field{class: class, id: id, size: uint8(len(value))}
	copy(f.value[:], value)
	return f
}

func field8(id uint8, v uint8) Field   { return field(classBasic, id, []byte{v}) }
func field16(id uint8, v uint16) Field { return field(classBasic, id, be.AppendUint16(nil, v)) }

func (f Field) withMask(mask []byte) Field {
	f.masked = true
	copy(f.mask[:], mask)
	return f
}

// Metadata matches the metadata field, OVN's datapath tunnel key.
func Metadata(v uint64) Field {
	return field(classBasic, oxmMetadata, be.AppendUint64(nil, v))
}

// MetadataMasked matches masked bits of Metadata.
func MetadataMasked(v, mask uint64) Field {
	return Metadata(v).withMask(be.AppendUint64(nil, mask))
}

// Reg matches Nicira's register n, 0 to 15.
func Reg(n int, v uint32) Field {
	return field(classNXM1, uint8(n&15), be.AppendUint32(nil, v))
}

// RegMasked matches masked bits of Reg.
func RegMasked(n int, v, mask uint32) Field {
	return Reg(n, v).withMask(be.AppendUint32(nil, mask))
}

// PktMark matches the packet mark, the kernel's skb mark.
func PktMark(v uint32) Field { return field(classNXM1, nxmPktMark, be.AppendUint32(nil, v)) }

// PktMarkMasked matches masked bits of PktMark.
func PktMarkMasked(v, mask uint32) Field { return PktMark(v).withMask(be.AppendUint32(nil, mask)) }

// Fragment matches fragments of IP packets, the first one too.
func Fragment() Field { return field(classNXM1, nxmIPFrag, []byte{1}).withMask([]byte{1}) }

// InPort matches the ingress port.
func InPort(port uint32) Field {
	return field(classBasic, oxmInPort, be.AppendUint32(nil, port))
}

// EthType matches the EtherType after VLAN tags.
func EthType(t uint16) Field { return field16(oxmEthType, t) }

// EthSrc matches the source MAC.
func EthSrc(mac [6]byte) Field { return field(classBasic, oxmEthSrc, mac[:]) }

// EthDst matches the destination MAC.
func EthDst(mac [6]byte) Field { return field(classBasic, oxmEthDst, mac[:]) }

// VLANID matches, or in a SetField sets, the outer VLAN id, 0 to 4095.
func VLANID(vid uint16) Field { return field16(oxmVLANVID, vlanPresent|vid&0xfff) }

// VLANNone matches untagged frames.
func VLANNone() Field { return field16(oxmVLANVID, 0) }

// IPProto matches the IP protocol; it needs EthType.
func IPProto(p uint8) Field { return field8(oxmIPProto, p) }

// IPv4Src matches the IPv4 source; it needs EthType. The switch refuses other addresses.
func IPv4Src(a netip.Addr) Field { return field(classBasic, oxmIPv4Src, a.Unmap().AsSlice()) }

// IPv4Dst is IPv4Src for the destination.
func IPv4Dst(a netip.Addr) Field { return field(classBasic, oxmIPv4Dst, a.Unmap().AsSlice()) }

// IPv6Src is IPv4Src for IPv6.
func IPv6Src(a netip.Addr) Field { return field(classBasic, oxmIPv6Src, a.AsSlice()) }

// IPv6Dst is IPv6Src for the destination.
func IPv6Dst(a netip.Addr) Field { return field(classBasic, oxmIPv6Dst, a.AsSlice()) }

// IPv4DstPrefix matches a prefix of IPv4Dst.
func IPv4DstPrefix(p netip.Prefix) Field { return IPv4Dst(p.Addr()).withMask(prefixMask(p)) }

// IPv6DstPrefix matches a prefix of IPv6Dst.
func IPv6DstPrefix(p netip.Prefix) Field { return IPv6Dst(p.Addr()).withMask(prefixMask(p)) }

func prefixMask(p netip.Prefix) []byte { return net.CIDRMask(p.Bits(), p.Addr().BitLen()) }

// UDPSrc matches the UDP source port; it needs IPProto 17.
func UDPSrc(port uint16) Field { return field16(oxmUDPSrc, port) }

// UDPDst is UDPSrc for the destination.
func UDPDst(port uint16) Field { return field16(oxmUDPDst, port) }

// TCPSrc matches the TCP source port; it needs IPProto 6.
func TCPSrc(port uint16) Field { return field16(oxmTCPSrc, port) }

// TCPDst is TCPSrc for the destination.
func TCPDst(port uint16) Field { return field16(oxmTCPDst, port) }

// TCPFlags matches the TCP flags that are set in mask (RFC 9293, 3.1); it needs IPProto 6.
func TCPFlags(v, mask uint16) Field {
	return field16(oxmTCPFlags, v).withMask(be.AppendUint16(nil, mask))
}

// SCTPDst matches the SCTP destination port; it needs IPProto 132.
func SCTPDst(port uint16) Field { return field16(oxmSCTPDst, port) }

// ARPOp matches the ARP operation; it needs EthType 0x0806.
func ARPOp(op uint16) Field { return field16(oxmARPOp, op) }

// ARPSPA matches the ARP sender's IPv4 address.
func ARPSPA(a netip.Addr) Field { return field(classBasic, oxmARPSPA, a.Unmap().AsSlice()) }

// ARPTPA matches the ARP target's IPv4 address.
func ARPTPA(a netip.Addr) Field { return field(classBasic, oxmARPTPA, a.Unmap().AsSlice()) }

// ICMPv6Type matches the ICMPv6 type; it needs IPProto 58.
func ICMPv6Type(t uint8) Field { return field8(oxmICMPv6Type, t) }

// NDTarget matches the neighbour discovery target; it needs ICMPv6Type 135 or 136.
func NDTarget(a netip.Addr) Field { return field(classBasic, oxmNDTarget, a.AsSlice()) }

func (f Field) payload() (value, mask []byte) {
	if f.long != "" {
		b := []byte(f.long)
		return b[:f.size], b[f.size:]
	}
	value = f.value[:f.size]
	if f.masked {
		mask = f.mask[:f.size]
	}
	return value, mask
}

// header returns the unmasked OXM header, as in actions.
func (f Field) header() uint32 {
	return uint32(f.class)<<16 | uint32(f.id)<<9 | uint32(f.size)
}

func (f Field) append(b []byte) []byte {
	value, mask := f.payload()
	length := len(value) + len(mask)
	if f.class == classExperimenter {
		length += 4
	}
	b = be.AppendUint16(b, f.class)
	hm := byte(0)
	if f.masked {
		hm = 1
	}
	b = append(b, f.id<<1|hm, byte(length))
	if f.class == classExperimenter {
		b = be.AppendUint32(b, f.vendor)
	}
	b = append(b, value...)
	return append(b, mask...)
}

// parseField returns the TLV at the start of b and its length.
func parseField(b []byte) (Field, int, error) {
	if len(b) < 4 {
		return Field{}, 0, malformed("OXM header of %d bytes", len(b))
	}
	f := Field{class: be.Uint16(b), id: b[2] >> 1, masked: b[2]&1 != 0}
	n := 4 + int(b[3])
	if n > len(b) {
		return Field{}, 0, malformed("OXM field %#x/%d of %d bytes where %d are left", f.class, f.id, n, len(b))
	}
	p := b[4:n]
	if f.class == classExperimenter {
		if len(p) < 4 {
			return Field{}, 0, malformed("experimenter OXM field of %d bytes", len(p))
		}
		f.vendor, p = be.Uint32(p), p[4:]
	}
	size := len(p)
	if f.masked {
		if size%2 != 0 {
			return Field{}, 0, malformed("masked OXM field %#x/%d of %d bytes", f.class, f.id, size)
		}
		size /= 2
	}
	f.size = uint8(size)
	if size > len(f.value) {
		f.long = string(p)
		return f, n, nil
	}
	copy(f.value[:], p[:size])
	copy(f.mask[:], p[size:])
	return f, n, nil
}

// nxmToOXM has fields of the same width in both notations.
var nxmToOXM = map[[2]uint16]uint8{
	{classNXM0, 1}: oxmEthDst, {classNXM0, 2}: oxmEthSrc, {classNXM0, 3}: oxmEthType,
	{classNXM0, 6}: oxmIPProto, {classNXM0, 7}: oxmIPv4Src, {classNXM0, 8}: oxmIPv4Dst,
	{classNXM0, 9}: oxmTCPSrc, {classNXM0, 10}: oxmTCPDst,
	{classNXM0, 11}: oxmUDPSrc, {classNXM0, 12}: oxmUDPDst,
	{classNXM0, 15}: oxmARPOp, {classNXM0, 16}: oxmARPSPA, {classNXM0, 17}: oxmARPTPA,
	{classNXM1, nxmTunID}: oxmTunnelID,
	{classNXM1, 17}:       oxmARPSHA, {classNXM1, 18}: oxmARPTHA,
	{classNXM1, 19}: oxmIPv6Src, {classNXM1, 20}: oxmIPv6Dst, {classNXM1, 27}: oxmIPv6Label,
	{classNXM1, 21}: oxmICMPv6Type, {classNXM1, 22}: oxmICMPv6Code,
	{classNXM1, 23}: oxmNDTarget, {classNXM1, 24}: oxmNDSLL, {classNXM1, 25}: oxmNDTLL,
	{classNXM1, 28}: oxmIPECN, {classNXM1, 34}: oxmTCPFlags,
}

// normalize appends canonical fields: 32-bit registers, OXM numbers, no full or empty mask, no value bits outside
// the mask.
func (f Field) normalize(fields []Field) []Field {
	if f.long != "" {
		return append(fields, f)
	}
	switch {
	case f.class == classPacketRegs && f.size == 8 && f.id < 8:
		return f.split(2*int(f.id), fields)
	case f.class == classNXM1 && f.size == 16 && f.id >= nxmXXReg0 && f.id < nxmXXReg0+4:
		return f.split(4*int(f.id-nxmXXReg0), fields)
	}
	if id, ok := nxmToOXM[[2]uint16{f.class, uint16(f.id)}]; ok {
		f.class, f.id = classBasic, id
	}
	if f.masked {
		var all byte = 0xff
		var any byte
		for i := range int(f.size) {
			f.value[i] &= f.mask[i]
			all &= f.mask[i]
			any |= f.mask[i]
		}
		// 13 bits with the present bit.
		if f.class == classBasic && f.id == oxmVLANVID && f.size == 2 && be.Uint16(f.mask[:])&0x1fff == 0x1fff {
			all = 0xff
		}
		if any == 0 {
			return fields
		}
		if all == 0xff {
			f.masked, f.mask = false, [16]byte{}
		}
	}
	return append(fields, f)
}

// split returns 32-bit registers, most significant first.
func (f Field) split(first int, fields []Field) []Field {
	for i := range int(f.size / 4) {
		r := Reg(first+i, be.Uint32(f.value[4*i:]))
		if f.masked {
			r = r.withMask(f.mask[4*i : 4*i+4])
		}
		fields = r.normalize(fields)
	}
	return fields
}

var basicNames = [...]string{
	oxmInPort: "in_port", oxmMetadata: "metadata", oxmEthDst: "dl_dst", oxmEthSrc: "dl_src",
	oxmEthType: "eth_type", oxmVLANVID: "vlan_vid", oxmVLANPCP: "vlan_pcp", oxmIPECN: "ip_ecn", oxmIPProto: "ip_proto",
	oxmIPv4Src: "nw_src", oxmIPv4Dst: "nw_dst", oxmTCPSrc: "tcp_src", oxmTCPDst: "tcp_dst",
	oxmUDPSrc: "udp_src", oxmUDPDst: "udp_dst", oxmSCTPDst: "sctp_dst", oxmARPOp: "arp_op", oxmARPSPA: "arp_spa",
	oxmARPTPA: "arp_tpa", oxmARPSHA: "arp_sha", oxmARPTHA: "arp_tha", oxmIPv6Src: "ipv6_src",
	oxmIPv6Dst: "ipv6_dst", oxmIPv6Label: "ipv6_label", oxmICMPv6Type: "icmpv6_type",
	oxmICMPv6Code: "icmpv6_code", oxmNDTarget: "nd_target", oxmNDSLL: "nd_sll", oxmNDTLL: "nd_tll",
	oxmTunnelID: "tun_id", oxmTCPFlags: "tcp_flags",
}

// Name returns the name as in ovs-fields(7), or the numbers.
func (f Field) Name() string {
	switch {
	case f.class == classBasic && int(f.id) < len(basicNames) && basicNames[f.id] != "":
		return basicNames[f.id]
	case f.class == classNXM1 && f.id < 16:
		return "reg" + strconv.Itoa(int(f.id))
	case f.class == classNXM1 && f.id == nxmPktMark:
		return "pkt_mark"
	case f.class == classNXM1 && f.id == nxmIPFrag:
		return "ip_frag"
	case f.class == classNXM1 && f.id == nxmCTState:
		return "ct_state"
	case f.class == classNXM1 && f.id == nxmCTZone:
		return "ct_zone"
	case f.class == classNXM1 && f.id == nxmCTMark:
		return "ct_mark"
	case f.class == classNXM1 && f.id == nxmCTLabel:
		return "ct_label"
	}
	return fmt.Sprintf("oxm(%#x,%d)", f.class, f.id)
}

// String returns NAME=VALUE or NAME=VALUE/MASK.
func (f Field) String() string {
	value, mask := f.payload()
	s := f.Name() + "=" + f.format(value)
	if f.masked {
		s += "/" + f.format(mask)
	}
	return s
}

func (f Field) format(v []byte) string {
	if f.class == classBasic {
		switch f.id {
		case oxmIPv4Src, oxmIPv4Dst, oxmARPSPA, oxmARPTPA, oxmIPv6Src, oxmIPv6Dst, oxmNDTarget:
			if a, ok := netip.AddrFromSlice(v); ok {
				return a.String()
			}
		case oxmEthSrc, oxmEthDst, oxmARPSHA, oxmARPTHA, oxmNDSLL, oxmNDTLL:
			return net.HardwareAddr(v).String()
		case oxmInPort, oxmIPProto, oxmTCPSrc, oxmTCPDst, oxmUDPSrc, oxmUDPDst, oxmSCTPDst, oxmARPOp, oxmICMPv6Type, oxmICMPv6Code:
			var wide [8]byte
			copy(wide[8-min(8, len(v)):], v)
			n := be.Uint64(wide[:])
			if f.id == oxmInPort {
				return portName(uint32(n))
			}
			return strconv.FormatUint(n, 10)
		}
	}
	s := hex.EncodeToString(bytes.TrimLeft(v, "\x00"))
	if len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	if s == "" {
		s = "0"
	}
	return "0x" + s
}

func portName(p uint32) string {
	switch p {
	case PortInPort:
		return "IN_PORT"
	case PortTable:
		return "TABLE"
	case PortNormal:
		return "NORMAL"
	case PortFlood:
		return "FLOOD"
	case PortAll:
		return "ALL"
	case PortController:
		return "CONTROLLER"
	case PortLocal:
		return "LOCAL"
	case PortAny:
		return "ANY"
	}
	return strconv.FormatUint(uint64(p), 10)
}
