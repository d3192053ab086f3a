// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers (IANA).
const (
	protoHopByHop    = 0
	protoTCP         = 6
	protoUDP         = 17
	protoRouting     = 43
	protoFragment    = 44
	protoICMPv6      = 58
	protoDestOptions = 60
)

const (
	ipv4Len = 20
	ipv6Len = 40

	// default of RFC 1700 and of most hosts
	hopLimit = 64

	// RFC 8200 section 4.1 has five extension headers before UDP, one of them twice; RFC 8504 section 5.3 permits
	// to refuse more.
	maxHeaders = 8
)

type packet struct {
	src, dst   netip.Addr
	pseudo     uint64 // one's complement sum of the addresses
	proto      uint8
	hops       uint8 // TTL or hop limit
	fragmented bool  // an atomic fragment (RFC 6946)
	payload    []byte
}

// Bytes after the IP length are padding.
func (p *packet) decode(etherType uint16, b []byte) error {
	switch etherType {
	case etherIPv4:
		return p.decode4(b)
	case etherIPv6:
		return p.decode6(b)
	}
	return EtherType
}

// RFC 791
func (p *packet) decode4(b []byte) error {
	if len(b) < ipv4Len {
		return Truncated
	}
	hlen := int(b[0]&0xf) * 4
	if b[0]>>4 != 4 || hlen < ipv4Len {
		return IPHeader
	}
	total := int(binary.BigEndian.Uint16(b[2:]))
	if total < hlen || total > len(b) {
		return IPLength
	}
	h := b[:hlen]
	if fold(sum(0, h)) != 0xffff {
		return IPChecksum
	}
	// more fragments, or an offset
	if binary.BigEndian.Uint16(h[6:])&0x3fff != 0 {
		return Fragment
	}
	if hlen > ipv4Len {
		if err := options4(h[ipv4Len:]); err != nil {
			return err
		}
	}
	p.src, p.dst = netip.AddrFrom4([4]byte(h[12:])), netip.AddrFrom4([4]byte(h[16:]))
	p.pseudo = sum(0, h[12:20])
	p.hops, p.proto, p.payload = h[8], h[9], b[hlen:total]
	return nil
}

// options4 refuses malformed options and source routes: the packet is not for the destination address, and the
// answer follows the route (RFC 1122 section 3.2.1.8).
func options4(b []byte) error {
	const end, nop, loose, strict = 0, 1, 131, 137
	for len(b) > 0 {
		switch b[0] {
		case end:
			return nil
		case nop:
			b = b[1:]
			continue
		case loose, strict:
			return IPOptions
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return IPOptions
		}
		b = b[b[1]:]
	}
	return nil
}

// RFC 8200. A jumbogram, with length 0, has no content.
func (p *packet) decode6(b []byte) error {
	if len(b) < ipv6Len {
		return Truncated
	}
	if b[0]>>4 != 6 {
		return IPHeader
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length > len(b)-ipv6Len {
		return IPLength
	}
	p.src, p.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	p.pseudo = sum(0, b[8:40])
	p.hops, p.payload = b[7], b[ipv6Len:ipv6Len+length]
	return p.headers(b[6])
}

// headers removes extension headers from the payload.
func (p *packet) headers(next uint8) error {
	rest := p.payload
	for i := 0; isExtension(next); i++ {
		// RFC 8200 section 4.1
		if next == protoHopByHop && i > 0 {
			return ExtensionHeaders
		}
		n := extensionLen(next, rest)
		if i == maxHeaders || n > len(rest) {
			return ExtensionHeaders
		}
		h := rest[:n]
		if err := p.extension(next, h); err != nil {
			return err
		}
		next, rest = h[0], rest[n:]
	}
	p.proto, p.payload = next, rest
	return nil
}

// isExtension is for headers before UDP and TCP.
func isExtension(proto uint8) bool {
	switch proto {
	case protoHopByHop, protoDestOptions, protoRouting, protoFragment:
		return true
	}
	return false
}

// extensionLen may exceed b.
func extensionLen(proto uint8, b []byte) int {
	const unit = 8
	if proto == protoFragment || len(b) < unit {
		return unit
	}
	return unit + int(b[1])*unit
}

func (p *packet) extension(proto uint8, h []byte) error {
	switch proto {
	case protoFragment:
		// RFC 6946: an atomic fragment is a whole packet. OVS matches its ports, so it is punted.
		if binary.BigEndian.Uint16(h[2:])&0xfff9 != 0 {
			return Fragment
		}
		p.fragmented = true
		return nil
	case protoRouting:
		// RFC 8200 section 4.4: without segments left, any type is ignored.
		if h[3] != 0 {
			return RoutingHeader
		}
		return nil
	}
	return options6(h[2:])
}

// All options but padding are unknown, so a type that does not begin with 00 discards the packet (RFC 8200 section
// 4.2).
func options6(b []byte) error {
	const pad1 = 0
	for len(b) > 0 {
		if b[0] == pad1 {
			b = b[1:]
			continue
		}
		if len(b) < 2 || 2+int(b[1]) > len(b) || b[0]>>6 != 0 {
			return IPOptions
		}
		b = b[2+int(b[1]):]
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// isHost reports whether a may be an end on a link. An IPv4-mapped address in an IPv6 packet impersonates an IPv4
// host.
func isHost(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.Is4In6() && a != broadcast
}

// putIPv6 returns the rest of b, for length bytes of proto.
func putIPv6(b []byte, src, dst netip.Addr, proto, hops uint8, length int) []byte {
	binary.BigEndian.PutUint32(b, 6<<28)
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	b[6], b[7] = proto, hops
	s, d := src.As16(), dst.As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	return b[ipv6Len:]
}

// putIPv4 is putIPv6 for IPv4. With DF the identification is meaningless (RFC 6864 section 4.1), so it is 0.
func putIPv4(b []byte, src, dst netip.Addr, proto, hops uint8, length int) []byte {
	binary.BigEndian.PutUint32(b, 0x45<<24|uint32(ipv4Len+length))
	binary.BigEndian.PutUint32(b[4:], 0x4000)
	binary.BigEndian.PutUint32(b[8:], uint32(hops)<<24|uint32(proto)<<16)
	s, d := src.As4(), dst.As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	binary.BigEndian.PutUint16(b[10:], ^fold(sum(0, b[:ipv4Len])))
	return b[ipv4Len:]
}
