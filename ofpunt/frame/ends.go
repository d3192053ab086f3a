// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"
	"net/netip"
)

// Errors of [Ends.AppendDatagram] and [Ends.AppendSegment].
var (
	// ErrPayload: more than 65507 (IPv4) or 65527 (IPv6) bytes of UDP, or 65515 or 65535 of a TCP segment.
	ErrPayload = errors.New("payload too long for a packet")
	// ErrAddresses: not both IPv4 or both IPv6.
	ErrAddresses = errors.New("addresses of different families")
)

// Ends are the source and destination of a frame.
type Ends struct {
	SrcMAC, DstMAC [6]byte
	Tag
	Src, Dst netip.AddrPort
}

type content struct {
	bytes  []byte
	pseudo uint64 // one's complement sum of the addresses
	ipv4   bool
}

// decode leaves the ports to the caller, who calls setPorts.
func (e *Ends) decode(b []byte, proto uint8) (content, error) {
	etherType, tag, rest, err := link(b)
	if err != nil {
		return content{}, err
	}
	var p packet
	if err := p.decode(etherType, rest); err != nil {
		return content{}, err
	}
	if p.proto != proto {
		return content{}, Protocol
	}
	*e = Ends{
		SrcMAC: [6]byte(b[6:]), DstMAC: [6]byte(b), Tag: tag,
		Src: netip.AddrPortFrom(p.src, 0), Dst: netip.AddrPortFrom(p.dst, 0),
	}
	return content{p.payload, p.pseudo, etherType == etherIPv4}, nil
}

// setPorts refuses ends that cannot be answered.
func (e *Ends) setPorts(src, dst uint16) error {
	switch {
	case isGroup(e.SrcMAC):
		return SourceMAC
	case isGroup(e.DstMAC):
		return DestinationMAC
	case !isHost(e.Src.Addr()):
		return SourceAddress
	case !isHost(e.Dst.Addr()):
		return DestinationAddress
	case src == 0 || dst == 0:
		return Port
	}
	e.Src, e.Dst = netip.AddrPortFrom(e.Src.Addr(), src), netip.AddrPortFrom(e.Dst.Addr(), dst)
	return nil
}

// appendReply appends the headers of a packet from Dst to Src, and room for length bytes of proto. pseudo is the
// addresses' sum.
func (e *Ends) appendReply(dst []byte, tagged bool, proto uint8, length int) (whole, room []byte, pseudo uint64, err error) {
	from, to, overhead := e.Dst.Addr(), e.Src.Addr(), ipv6Len
	switch {
	case from.Is4() && to.Is4():
		overhead = ipv4Len
		if ipv4Len+length > 0xffff {
			return dst, nil, 0, fmt.Errorf("%w: %d bytes", ErrPayload, length)
		}
	case !from.Is6() || !to.Is6():
		return dst, nil, 0, fmt.Errorf("%w: %v, %v", ErrAddresses, from, to)
	case length > 0xffff:
		return dst, nil, 0, fmt.Errorf("%w: %d bytes", ErrPayload, length)
	}
	tag := e.inReply(tagged)
	dst, b := extend(dst, tag.len()+overhead+length)
	if overhead == ipv4Len {
		ip := putLink(b, e.SrcMAC, e.DstMAC, tag, etherIPv4)
		return dst, putIPv4(ip, from, to, proto, hopLimit, length), sum(0, ip[12:20]), nil
	}
	ip := putLink(b, e.SrcMAC, e.DstMAC, tag, etherIPv6)
	return dst, putIPv6(ip, from, to, proto, hopLimit, length), sum(0, ip[8:40]), nil
}
