// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

const udpLen = 8

// Errors of [UDP.AppendReply].
var (
	// ErrPayload: more bytes than a UDP datagram can hold, 65507 in IPv4 and
	// 65527 in IPv6.
	ErrPayload = errors.New("payload too long for a datagram")
	// ErrAddresses: two addresses that are not both IPv4 or both IPv6.
	ErrAddresses = errors.New("addresses of different families")
)

// UDP is a UDP datagram in an Ethernet frame.
type UDP struct {
	SrcMAC, DstMAC [6]byte
	Tag
	Src, Dst netip.AddrPort
	Payload  []byte // part of the decoded frame, not a copy
}

// Decode reads the datagram in b: Ethernet II with at most one IEEE 802.1Q tag,
// IPv4 with options or IPv6 with hop-by-hop, destination options, routing and
// atomic fragment headers, and UDP (RFC 768). The error is a [Refusal].
//
// A UDP length below that of the IP packet is taken, as Linux and Open vSwitch
// do; the surplus is where UDP options stand (RFC 9868).
//
// A checksum is optional in IPv4 only (RFC 8200 section 8.1). One that covers
// the pseudo header alone is taken for right: virtual interfaces leave the rest
// to hardware which a frame on its way through a software switch never meets.
func (u *UDP) Decode(b []byte) error {
	etherType, tag, rest, err := link(b)
	if err != nil {
		return err
	}
	var p packet
	if err := p.decode(etherType, rest); err != nil {
		return err
	}
	if p.proto != protoUDP {
		return Protocol
	}
	if len(p.payload) < udpLen {
		return UDPLength
	}
	length := int(binary.BigEndian.Uint16(p.payload[4:]))
	if length < udpLen || length > len(p.payload) {
		return UDPLength
	}
	d := p.payload[:length:length]
	if !checked(d, p.pseudo, etherType == etherIPv4) {
		return UDPChecksum
	}
	dstMAC, srcMAC := [6]byte(b), [6]byte(b[6:])
	sport, dport := binary.BigEndian.Uint16(d), binary.BigEndian.Uint16(d[2:])
	switch {
	case isGroup(srcMAC):
		return SourceMAC
	case isGroup(dstMAC):
		return DestinationMAC
	case !isHost(p.src):
		return SourceAddress
	case !isHost(p.dst):
		return DestinationAddress
	case sport == 0 || dport == 0:
		return Port
	}
	*u = UDP{
		SrcMAC: srcMAC, DstMAC: dstMAC, Tag: tag,
		Src: netip.AddrPortFrom(p.src, sport), Dst: netip.AddrPortFrom(p.dst, dport),
		Payload: d[udpLen:],
	}
	return nil
}

// checked tells whether the checksum of the datagram d can be relied on.
func checked(d []byte, pseudo uint64, optional bool) bool {
	field := binary.BigEndian.Uint16(d[6:])
	if field == 0 {
		return optional
	}
	pseudo = add(pseudo, protoUDP+uint32(len(d)))
	return fold(sum(pseudo, d)) == 0xffff || field == fold(pseudo)
}

// AppendReply appends to dst the frame that answers u with payload, and returns
// the longer slice. Hardware addresses, addresses and ports change ends. The tag
// of u stays if tagged, and is left out if not, for a switch that pushes it by
// itself. The packet has no options, TTL or hop limit 64, and in IPv4 don't
// fragment. Nothing is allocated if dst has room; payload must not lie in that
// room.
//
// The error is [ErrPayload] or [ErrAddresses]; dst is then returned as it was.
func (u *UDP) AppendReply(dst, payload []byte, tagged bool) ([]byte, error) {
	from, to := u.Dst.Addr(), u.Src.Addr()
	length, overhead := udpLen+len(payload), ipv6Len
	switch {
	case from.Is4() && to.Is4():
		overhead = ipv4Len
		if ipv4Len+length > 0xffff {
			return dst, fmt.Errorf("%w: %d bytes", ErrPayload, len(payload))
		}
	case !from.Is6() || !to.Is6():
		return dst, fmt.Errorf("%w: %v, %v", ErrAddresses, from, to)
	case length > 0xffff:
		return dst, fmt.Errorf("%w: %d bytes", ErrPayload, len(payload))
	}
	tag := u.keep(tagged)
	dst, b := extend(dst, tag.len()+overhead+length)
	var d []byte
	if overhead == ipv4Len {
		ip := putLink(b, u.SrcMAC, u.DstMAC, tag, etherIPv4)
		d = putIPv4(ip, from, to, protoUDP, hopLimit, length)
		putUDP(d, sum(0, ip[12:20]), u.Dst.Port(), u.Src.Port(), payload)
	} else {
		ip := putLink(b, u.SrcMAC, u.DstMAC, tag, etherIPv6)
		d = putIPv6(ip, from, to, protoUDP, hopLimit, length)
		putUDP(d, sum(0, ip[8:40]), u.Dst.Port(), u.Src.Port(), payload)
	}
	return dst, nil
}

// putUDP fills d with a datagram; pseudo is the sum of its two addresses.
func putUDP(d []byte, pseudo uint64, sport, dport uint16, payload []byte) {
	binary.BigEndian.PutUint16(d, sport)
	binary.BigEndian.PutUint16(d[2:], dport)
	binary.BigEndian.PutUint32(d[4:], uint32(len(d))<<16)
	copy(d[udpLen:], payload)
	check := ^fold(sum(add(pseudo, protoUDP+uint32(len(d))), d))
	if check == 0 {
		// RFC 768: 0 says that there is none.
		check = 0xffff
	}
	binary.BigEndian.PutUint16(d[6:], check)
}
