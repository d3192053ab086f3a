// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// Neighbour discovery (RFC 4861 sections 4.3, 4.4 and 4.6.1).
const (
	ndSolicitation  = 135
	ndAdvertisement = 136
	ndLen           = 24
	ndSourceMAC     = 1
	ndTargetMAC     = 2
	ndMACLen        = 8 // of an option with an Ethernet address

	ndSolicited = 1 << 30
	ndOverride  = 1 << 29

	// ndHops proves that no router has forwarded the message (section 7.1.1).
	ndHops = 255

	advertLen = ndLen + ndMACLen
)

func (n *Neighbor) decodeND(b []byte) error {
	var p packet
	if err := p.decode6(b); err != nil {
		return err
	}
	m := p.payload
	switch {
	case p.proto != protoICMPv6:
		return Protocol
	case p.fragmented:
		return Fragment // RFC 6980 section 5
	case len(m) < 4:
		return NDFormat
	case m[0] != ndSolicitation:
		return ICMPType
	case p.hops != ndHops:
		return HopLimit
	case fold(sum(add(p.pseudo, protoICMPv6+uint32(len(m))), m)) != 0xffff:
		return ICMPChecksum
	case m[1] != 0 || len(m) < ndLen:
		return NDFormat
	}
	n.Kind = KindICMPv6
	n.Sender, n.Target = p.src, netip.AddrFrom16([16]byte(m[8:]))
	return n.options(m[ndLen:])
}

// options takes the first source link-layer address.
func (n *Neighbor) options(b []byte) error {
	found := false
	for len(b) > 0 {
		if len(b) < 2 {
			return NDFormat
		}
		size := int(b[1]) * 8
		if size == 0 || size > len(b) {
			return NDFormat
		}
		if b[0] == ndSourceMAC && !found {
			if size != ndMACLen {
				return NDFormat
			}
			n.SrcMAC, found = [6]byte(b[2:]), true
		}
		b = b[size:]
	}
	return nil
}

func (n *Neighbor) putND(b []byte, mac [6]byte) {
	m := putIPv6(b, n.Target, n.Sender, protoICMPv6, ndHops, advertLen)
	target := n.Target.As16()
	binary.BigEndian.PutUint32(m, ndAdvertisement<<24)
	binary.BigEndian.PutUint32(m[4:], ndSolicited|ndOverride)
	copy(m[8:], target[:])
	m[24], m[25] = ndTargetMAC, ndMACLen/8
	copy(m[26:], mac[:])
	pseudo := add(sum(0, b[8:40]), protoICMPv6+advertLen)
	binary.BigEndian.PutUint16(m[2:], ^fold(sum(pseudo, m)))
}
