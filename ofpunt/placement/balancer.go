// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"net/netip"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// A load balancer rewrites a VIP to a backend (ls_in_pre_stateful and ls_in_lb of ovn-northd(8)) before the DNS
// stage. The VIP may remain in:
//   - The original tuple of connection tracking. But ls_in_stateful commits a connection without a reply again and
//     hides the tuple, so a second query from the same port, such as AAAA beside A, has none.
//   - Registers that OVN sets for hairpin traffic, only for packets to a VIP (northd/northd.c, REG_ORIG_DIP_IPV4 up
//     to 24.09, REG_LB_IPV4 from 25.03 on). The port is 0 for a VIP without a port; the packet's port is unchanged
//     then.
const (
	regVIP4Old = 1 // up to OVN 24.09; later protocol and port of the tuple
	regVIP4    = 4 // from OVN 25.03 on; earlier the address of a backend
	regVIP6    = 4 // to 7
	regVIPPort = 2 // bits 0 to 15
)

const portMask = 0xffff

func (s *Service) balanced() [][]openflow.Field {
	if s.Hijack {
		to := openflow.RegMasked(regVIPPort, DNSPort, portMask)
		return [][]openflow.Field{
			{openflow.EthType(ethIPv4), openflow.IPProto(ProtoUDP), to},
			{openflow.EthType(ethIPv6), openflow.IPProto(ProtoUDP), to},
		}
	}
	return balancedTo(s.Addresses)
}

// balancedTo omits the IP protocol to save flows: a load balancer of SCTP on that port is unlikely.
func balancedTo(addresses []netip.AddrPort) [][]openflow.Field {
	var all [][]openflow.Field
	for _, a := range addresses {
		port := openflow.RegMasked(regVIPPort, uint32(a.Port()), portMask)
		if a.Addr().Is4() {
			b := a.Addr().As4()
			vip := binary.BigEndian.Uint32(b[:])
			for _, n := range []int{regVIP4Old, regVIP4} {
				all = append(all, []openflow.Field{openflow.EthType(ethIPv4), openflow.Reg(n, vip), port})
			}
			continue
		}
		b := a.Addr().As16()
		fields := []openflow.Field{openflow.EthType(ethIPv6), port}
		for i := range 4 {
			fields = append(fields, openflow.Reg(regVIP6+i, binary.BigEndian.Uint32(b[4*i:])))
		}
		all = append(all, fields)
	}
	return all
}

// Asked returns the destination before load balancing of a packet of IP protocol proto (IANA) to dst.
func Asked(p *openflow.PacketIn, proto uint8, dst netip.AddrPort) netip.AddrPort {
	const relevant = openflow.CTTracked | openflow.CTDstNAT | openflow.CTReply | openflow.CTRelated | openflow.CTInvalid
	if ct := &p.CT; ct.State&relevant == openflow.CTTracked|openflow.CTDstNAT &&
		ct.Proto == proto && ct.Dst.BitLen() == dst.Addr().BitLen() && ct.Port != 0 {
		return netip.AddrPortFrom(ct.Dst, ct.Port)
	}
	vip := vip4(&p.Regs)
	if dst.Addr().Is6() {
		vip = vip6(&p.Regs)
	}
	if !vip.IsValid() {
		return dst
	}
	if port := uint16(p.Regs[regVIPPort] & portMask); port != 0 {
		return netip.AddrPortFrom(vip, port)
	}
	return netip.AddrPortFrom(vip, dst.Port())
}

// vip4 returns the VIP in the registers, invalid without one. No address begins with byte 0, so newer OVN has no
// address in the older register.
func vip4(regs *[16]uint32) (vip netip.Addr) {
	for _, n := range [...]int{regVIP4Old, regVIP4} {
		if v := regs[n]; v>>24 != 0 {
			return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
		}
	}
	return vip
}

// vip6 returns the VIP in the registers, invalid without one. Lower registers may hold other data. The first 32 bits
// of a unicast VIP are not 0 (RFC 4291, section 2.5).
func vip6(regs *[16]uint32) (vip netip.Addr) {
	if regs[regVIP6] == 0 {
		return vip
	}
	var b [16]byte
	for i := range 4 {
		binary.BigEndian.PutUint32(b[4*i:], regs[regVIP6+i])
	}
	return netip.AddrFrom16(b)
}
