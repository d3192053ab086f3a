// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"net/netip"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// A load balancer of a logical switch rewrites the destination of a packet well before
// the DNS stage (stages ls_in_pre_stateful and ls_in_lb of ovn-northd(8)), from the
// address of a VIP to the address of a backend. Two fields may still have the original one:
//
//   - The original direction tuple of connection tracking. But OVN commits a connection
//     once more in the stage ls_in_stateful as long as there was no reply in it, and
//     after that action the tuple can't be seen. So a second query from the same port,
//     such as AAAA beside A, has none.
//   - Registers, where OVN keeps a VIP and its port for hairpin traffic (northd/northd.c,
//     REG_ORIG_DIP_IPV4 up to 24.09 and REG_LB_IPV4 from 25.03 on). They are written
//     before the packet is rewritten, and only for packets to a VIP. The port is
//     0 where the VIP has no port: then the port of the packet does not change.
const (
	regVIP4Old = 1 // up to OVN 24.09; the protocol and the port of the tuple in later ones
	regVIP4    = 4 // from OVN 25.03 on; the address of a backend in earlier ones
	regVIP6    = 4 // to 7
	regVIPPort = 2 // bits 0 to 15
)

const portMask = 0xffff

// balanced returns the matches, without the asker, of the DNS queries of all guests that a
// load balancer has rewritten.
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

// balancedTo returns the matches of queries to resolver addresses that a load balancer has rewritten. They have
// no IP protocol, which saves a flow for each guest and address: a load balancer on that port for another protocol
// than UDP and TCP is unlikely.
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

// Asked returns the original destination of a packet of IP protocol proto (IANA), whose
// destination is dst in the packet-in: another one if a load balancer has rewritten it.
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

// vip4 returns the IPv4 address in the registers, invalid without one. No address has 0 in its first byte, so
// a newer release has no address in the register of the older ones.
func vip4(regs *[16]uint32) (vip netip.Addr) {
	for _, n := range [...]int{regVIP4Old, regVIP4} {
		if v := regs[n]; v>>24 != 0 {
			return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
		}
	}
	return vip
}

// vip6 returns the IPv6 address in the registers, invalid without one. Without a VIP
// the lower part may hold something else. No unicast address that can be a VIP has 0 in its
// first 32 bits (RFC 4291, section 2.5).
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
